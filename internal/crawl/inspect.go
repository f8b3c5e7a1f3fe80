package crawl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/fetch"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/robots"
	"github.com/mapwright/mapwright/internal/urlnorm"
	"github.com/mapwright/mapwright/parser"
)

// Inspected is one page as it was read from a file or fetched.
type Inspected struct {
	URL      urlnorm.URL
	Status   int
	Header   http.Header
	Body     []byte // nil if it was not read
	Charset  string // what it came in; empty for UTF-8
	Location string
	Type     string
	Length   int64
	Took     time.Duration
	Error    string
	Outcome  page.Outcome
}

// Inspection is what would be recorded of one page, and every link of it with what would become of it.
type Inspection struct {
	page.Line
	Base  string          `json:"base,omitempty"`
	Links []InspectedLink `json:"links"`
}

// InspectedLink is one link of an inspected page.
type InspectedLink struct {
	Href   string  `json:"href"`
	URL    *string `json:"url"` // canonical; null if it is no http(s) URL
	Kind   string  `json:"kind"`
	Rel    string  `json:"rel"`
	Text   string  `json:"text"`
	Follow bool    `json:"follow"`
	Reason string  `json:"reason"` // why it is not followed; empty if it is
}

// ReadPage reads a page from a file as a fetch would: bounded, and in UTF-8.
func ReadPage(r io.Reader, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > most {
		return nil, fmt.Errorf("the page is larger than %d bytes", most)
	}
	enc, name, _ := charset.DetermineEncoding(body[:min(len(body), 1024)], "")
	if name != "utf-8" {
		if body, err = enc.NewDecoder().Bytes(body); err != nil {
			return nil, fmt.Errorf("bring the page from %s to UTF-8: %w", name, err)
		}
	}
	return bytes.ToValidUTF8(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), []byte("\uFFFD")), nil
}

// FetchPage fetches one page for inspection.
func FetchPage(ctx context.Context, f Fetcher, u urlnorm.URL) (*Inspected, error) {
	resp, err := f.Do(ctx, fetch.Request{URL: u, Mode: fetch.Page})
	if err != nil {
		resp.Close() // what the host answered before it went wrong, or nil
		return nil, err
	}
	defer resp.Close()
	in := &Inspected{URL: u, Status: resp.Status, Header: resp.Header, Location: resp.Location, Type: resp.ContentType, Length: resp.ContentLength, Took: resp.Timings.Total}
	if resp.Body != nil {
		in.Body, in.Charset, in.Length = append([]byte{}, resp.Body...), resp.Charset, resp.DecodedLength
	}
	return in, nil
}

// Inspect says what would be recorded of a page in a crawl that starts there.
func Inspect(s *config.Settings, in *Inspected) (*Inspection, error) {
	extractors, err := parseExtractors(s.Extract)
	if err != nil {
		return nil, err
	}
	p, err := parser.New(parser.Options{Images: true, StructuredLinks: s.StructuredLinks, Extract: extractors, RobotsToken: robots.ProductToken(s.UserAgent)})
	if err != nil {
		return nil, err
	}
	scope, err := NewScope(s, []urlnorm.URL{in.URL})
	if err != nil {
		return nil, err
	}
	w := &worker{run: &run{settings: s, scope: scope, parser: p, tally: newTally(), traps: NewTraps(s)}, reading: &reading{}}
	f := &finish{status: in.Status, outcome: outcomeOf(in.Status, in.Location), at: time.Now()}
	f.facts = page.Facts{ContentType: in.Header.Get("Content-Type"), ContentLength: in.Length, ResponseTime: -1, ETag: in.Header.Get("ETag")}
	if in.Took > 0 {
		f.facts.ResponseTime = in.Took
	}
	if in.Location != "" {
		if target, err := in.URL.Resolve(in.Location); err == nil {
			f.facts.RedirectTo = target.String()
		}
	}
	out := &Inspection{Links: []InspectedLink{}}
	if in.Body != nil {
		f.facts.ContentLength = int64(len(in.Body))
		if err := p.Parse(&w.page, parser.Input{URL: in.URL, Body: in.Body, Header: in.Header, Encoding: encodingOf(in.Charset)}); err != nil {
			f.facts.Error = err.Error() // as in a crawl: the selectors of --extract could not be run
		}
		w.take(&f.facts, &w.page, f.at)
		w.traps.Saw(in.URL, nil)
		out.Base = w.page.Base.String()
		for i := range w.page.Links {
			out.Links = append(out.Links, w.inspectLink(in.URL, &w.page.Links[i]))
		}
	}
	l := &out.Line
	*l = page.Line{SchemaVersion: page.SchemaVersion, URL: in.URL.String(), Source: sourceName(sourceStart), Outcome: f.outcome.String(), StatusCode: in.Status, CrawledAt: page.Time{Time: f.at}}
	l.SetFacts(&f.facts)
	l.Indexable, l.IndexableReason = page.Indexable(l.URL, f.outcome, in.Status, &f.facts, s.XMLTypes)
	return out, nil
}

// inspectLink says what would become of a link of a page.
func (w *worker) inspectLink(from urlnorm.URL, l *parser.Link) InspectedLink {
	out := InspectedLink{Href: l.Href, Kind: l.Kind.String(), Rel: l.Rel, Text: l.Text}
	if !l.URL.IsZero() {
		text := l.URL.String()
		out.URL = &text
	}
	switch why := w.verdict(l, l.NoFollow || w.page.NoFollow, false); {
	case l.Kind == parser.KindImage:
		out.Reason = "image"
	case why == NotHTTP && l.Fault != parser.FaultNone:
		out.Reason = l.Fault.String()
	case why != InScope:
		out.Reason = string(why)
	default:
		if trap := w.traps.Check(l.URL, from.String()); trap != "" {
			out.Reason = "trap: " + trap
		} else {
			out.Follow = true
		}
	}
	return out
}

// outcomeOf is the outcome of a page that had a response.
func outcomeOf(status int, location string) page.Outcome {
	switch {
	case status >= 300 && status < 400 && location != "":
		return page.Redirect
	case status >= 200 && status < 300:
		return page.OK
	case status == http.StatusTooManyRequests:
		return page.Throttled
	}
	return page.HTTPError
}
