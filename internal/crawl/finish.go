package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// failure returns the record of a page without a response.
func failure(o page.Outcome, why string) *frontier.Finish {
	a := recrawl.Answer{Outcome: o, At: time.Now(), Facts: page.Facts{Error: why}}
	return a.Record()
}

// outcomeOf is the outcome of a page that had a response.
func outcomeOf(status int, location string) page.Outcome {
	switch {
	case status >= 300 && status < 400 && status != http.StatusNotModified && location != "":
		return page.Redirect
	case status >= 200 && status < 300 && status != http.StatusPartialContent: // no part is asked for
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

// describe takes what the headers of a response say.
func describe(a *recrawl.Answer, resp *fetch.Response) {
	a.Status, a.Bytes, a.Header = resp.Status, resp.WireBytes, resp.Header
	length := resp.ContentLength
	if resp.Body != nil {
		length = resp.DecodedLength
	}
	a.Facts = headerFacts(resp.Header, resp.ContentType, length, a.At)
	a.Facts.Archived = resp.Archived
	a.Facts.ResponseTime = new(page.Millis(resp.Timings.Total))
}

// headerFacts returns the facts in the headers of a response that came at the given time. Sniffed is the content type
// that the body looks like. A negative length is unknown.
func headerFacts(h http.Header, sniffed string, length int64, at time.Time) page.Facts {
	f := page.Facts{ContentType: cmp.Or(h.Get("Content-Type"), sniffed), ContentLength: page.Length(length),
		ETag: h.Get("Etag")}
	recrawl.TakeHeaders(&f, h, at)
	return f
}

// resolveTarget finds the URL that the Location header of a redirect names, and records it. If there is none, or one
// that is longer than a record holds, it records and returns why, and the URL is zero.
func resolveTarget(f *page.Facts, from weburl.URL, location string) (target weburl.URL, why scope.Reason) {
	f.RedirectTo = page.BoundTarget(location)
	size := len(location)
	if size <= page.MaxTarget {
		var err error
		if target, err = from.Resolve(location); err != nil {
			f.Error = fmt.Sprintf("redirect to %q: %v", location, err)
			return target, scope.NotHTTP
		}
		f.RedirectTo, size = page.BoundTarget(target.String()), len(target.String())
	}
	if size > page.MaxTarget {
		f.Error = fmt.Sprintf("redirect to a URL of %d bytes, and the limit is %d", size, page.MaxTarget)
		return weburl.URL{}, scope.TooLong
	}
	return target, scope.InScope
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
