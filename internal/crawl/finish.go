package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/state"
)

// finish collects what became of a URL, until it is recorded.
type finish struct {
	outcome page.Outcome
	status  int
	at      time.Time
	bytes   int64
	facts   page.Facts
}

// record is the form that is stored. The worker makes it, because the frontier commits with its locks held.
// Facts of a page that are too many for a record are left out, and its error says so.
func (f *finish) record() *frontier.Finish {
	facts := f.facts.Append(make([]byte, 0, 512))
	if len(facts) > maxFacts {
		f.facts.Links, f.facts.Images, f.facts.Extracted = nil, nil, nil
		f.facts.Error = fmt.Sprintf("its links, images and extracted values are not recorded: together they have %d "+
			"bytes, and the limit is %d", len(facts), maxFacts)
		facts = f.facts.Append(facts[:0])
	}
	return &frontier.Finish{
		Outcome: uint8(f.outcome), Status: uint16(f.status), CheckedAt: f.at, Bytes: uint64(max(f.bytes, 0)),
		RedirectTo: f.facts.RedirectTo, Facts: facts,
	}
}

// judged is the form that is stored of what a verdict says.
func (f *finish) judged(v *recrawl.Verdict) *frontier.Finish {
	var rec *frontier.Finish
	if v.Facts == nil {
		rec = &frontier.Finish{CheckedAt: f.at, Bytes: uint64(max(f.bytes, 0))}
	} else {
		if v.Facts != &f.facts {
			f.facts = *v.Facts
		}
		rec = f.record()
	}
	v.Record(rec)
	return rec
}

// maxFacts bounds the facts of one page, in bytes. A record of the store must hold them and a little more. Only a page
// with most of 8 MiB of links under --links, and several --extract that each find 256 long values, has as many.
const maxFacts = state.MaxRecordSize - 1<<20

// failure is a finish without a response.
func failure(o page.Outcome, why string, ev page.Robots) *frontier.Finish {
	f := finish{outcome: o, at: time.Now(), facts: page.Facts{Error: why, Robots: ev}}
	return f.record()
}

// outcomeOf is the outcome of a page that had a response.
func outcomeOf(status int, location string) page.Outcome {
	switch {
	case status >= 300 && status < 400 && status != http.StatusNotModified && location != "":
		return page.Redirect
	case status >= 200 && status < 300:
		return page.OK
	case status == http.StatusTooManyRequests:
		return page.Throttled
	}
	return page.HTTPError
}

// failedOutcome is the outcome of a page whose fetch failed.
func failedOutcome(err error) page.Outcome {
	if o, known := page.ParseOutcome(string(fetch.KindOf(err))); known {
		return o
	}
	return page.ReadError
}

// errorText is what a record says of a failure.
func errorText(err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		text := e.Detail()
		if e.Kind == fetch.TooLarge {
			text += " (--max-body-size)"
		}
		return text
	}
	return err.Error()
}

// describe takes the facts of a response.
func describe(f *finish, resp *fetch.Response, ev page.Robots) {
	length := resp.ContentLength
	if resp.Body != nil {
		length = resp.DecodedLength
	}
	f.facts = headerFacts(resp.Header, resp.ContentType, length, f.at)
	f.facts.ResponseTime, f.facts.Robots = new(page.Millis(resp.Timings.Total)), ev
}

// headerFacts are the facts of the headers of a response that came at a moment. Sniffed is the type that the body looks
// like, and length is negative if it is not known.
func headerFacts(h http.Header, sniffed string, length int64, at time.Time) page.Facts {
	f := page.Facts{ContentType: cmp.Or(h.Get("Content-Type"), sniffed), ContentLength: page.Length(length),
		ETag: h.Get("Etag")}
	recrawl.TakeHeaders(&f, h, at)
	return f
}

// distinct leaves out repeated texts, and keeps the order of the others.
func distinct(texts []string) []string {
	if len(texts) < 2 {
		return texts
	}
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(texts, func(s string) bool {
		had := seen[s]
		seen[s] = true
		return had
	})
}
