package crawl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
	"github.com/mapwright/mapwright/internal/web/robots"
	"github.com/mapwright/mapwright/parser"
)

// Inspected is one page as it was read from a file or fetched.
type Inspected struct {
	URL      weburl.URL
	Status   int // 0 if the page was not fetched, since robots.txt disallows it
	Header   http.Header
	Body     []byte // nil if it was not read
	Charset  string // the encoding that it came in; empty for UTF-8
	Location string
	Type     string
	Length   int64
	Took     time.Duration
	Err      error // why there is no whole response; nil if there is one

	// Robots is the robots.txt that applies to a URL, or nil. The function is nil if robots.txt does not count: for a
	// page from a file, and with --ignore-robots.
	Robots func(weburl.URL) *robotscache.Answer
}

// Inspection is what a crawl would record of one page, and what would become of each of its links.
type Inspection struct {
	page.Line
	// why robots.txt gives no rules, and what is assumed then; empty if it gives rules
	Assumption string          `json:"-"`
	Base       string          `json:"base,omitempty"`
	Links      []InspectedLink `json:"links"`
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

// ReadPage reads a page from a file as a fetch would: bounded, and in UTF-8. It also names the encoding that the page
// was in.
func ReadPage(r io.Reader, most int64) (body []byte, charset string, err error) {
	body, err = io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, "", err
	}
	if int64(len(body)) > most {
		return nil, "", fmt.Errorf("the page is larger than %d bytes (--max-body-size)", most)
	}
	return fetch.DecodePage(body)
}

// FetchPage fetches one page for inspection, if robots.txt allows it. If the fetch fails, Inspected.Err says why, as a
// crawl would record it. FetchPage returns an error only if the fetch was cancelled.
func FetchPage(ctx context.Context, s *config.Settings, f fetch.Fetcher, u weburl.URL) (*Inspected, error) {
	in := &Inspected{URL: u, Length: -1}
	if !s.IgnoreRobots {
		in.Robots = askedOnce(ctx, s, f)
		if !in.allowed(u) {
			return in, nil
		}
	}
	resp, err := f.Do(ctx, fetch.Request{URL: u, Mode: fetch.Page})
	if fetch.KindOf(err) == fetch.Canceled {
		resp.Close()
		return nil, err
	}
	if in.Err = err; resp == nil {
		return in, nil
	}
	defer resp.Close() // there may be a response beside an error: what came before the page broke off
	in.Status, in.Header, in.Location, in.Type = resp.Status, resp.Header, resp.Location, resp.ContentType
	in.Length, in.Took = resp.ContentLength, resp.Timings.Total
	if err == nil && resp.Body != nil {
		in.Body, in.Charset, in.Length = append([]byte{}, resp.Body...), resp.Charset, resp.DecodedLength
	}
	return in, nil
}

// maxInspectedOrigins is how many origins are asked for their robots.txt for one page. Links to more count as allowed.
const maxInspectedOrigins = 8

// askedOnce finds the robots.txt of URLs, and asks each origin once.
func askedOnce(ctx context.Context, s *config.Settings, f fetch.Fetcher) func(weburl.URL) *robotscache.Answer {
	known := map[string]*robotscache.Answer{}
	return func(u weburl.URL) *robotscache.Answer {
		a := known[u.Origin()]
		if a == nil && len(known) < maxInspectedOrigins {
			// The error is in the answer too, which is an assumption then.
			a, _ = robotscache.Fetch(ctx, f, u.Origin(), robots.ProductToken(s.UserAgent), s.RobotsStrict)
			known[u.Origin()] = a
		}
		return a
	}
}

// allowed says whether robots.txt allows a URL. It allows everything if robots.txt does not count or was not asked for.
func (in *Inspected) allowed(u weburl.URL) bool {
	if in.Robots == nil {
		return true
	}
	a := in.Robots(u)
	return a == nil || a.Match(u).Allowed
}

// Inspect says what would be recorded of a page in a crawl that starts there.
func Inspect(s *config.Settings, in *Inspected) (*Inspection, error) {
	extractors, err := parseExtractors(s.Extract)
	if err != nil {
		return nil, err
	}
	p, err := parser.New(parser.Options{Images: true, StructuredLinks: s.StructuredLinks, Extract: extractors,
		RobotsToken: robots.ProductToken(s.UserAgent)})
	if err != nil {
		return nil, err
	}
	within, err := scope.New(s, []weburl.URL{in.URL})
	if err != nil {
		return nil, err
	}
	var pg parser.Page
	known := traps.New(s.Traps, 0)
	f := &recrawl.Answer{Status: in.Status, Outcome: outcomeOf(in.Status, in.Location), At: time.Now()}
	f.Facts = headerFacts(in.Header, in.Type, in.Length, f.At)
	if in.Err != nil {
		f.Outcome, f.Facts.Error = failedOutcome(in.Err), errorText(in.Err)
	}
	out := &Inspection{Links: []InspectedLink{}}
	if in.Robots != nil {
		a := in.Robots(in.URL)
		f.Facts.Robots = a.Check(in.URL)
		out.Assumption = a.Assumption()
		if !f.Facts.Robots.Allowed {
			f.Outcome = page.BlockedByRobots
		}
	}
	if in.Took > 0 {
		f.Facts.ResponseTime = new(page.Millis(in.Took))
	}
	if f.Outcome == page.Redirect {
		if target, why := resolveTarget(&f.Facts, in.URL, in.Location); why == scope.InScope {
			f.Facts.RedirectTo = s.Params().Trim(target).String()
		}
	}
	if in.Body != nil {
		f.Facts.ContentLength = new(int64(len(in.Body)))
		if err := p.Parse(&pg, parser.Input{URL: in.URL, Body: in.Body, Header: in.Header,
			Encoding: encodingOf(in.Charset)}); err != nil {
			f.Facts.Error = err.Error() // as in a crawl: the selectors of --extract could not be run
		}
		f.Facts.TakePage(&pg, f.At)
		out.Base = pg.Base.String()
		links := within.OfPage(in.URL)
		for i := range pg.Links {
			l := &pg.Links[i]
			out.Links = append(out.Links, in.judge(s, &links, known, l, l.NoFollow || pg.NoFollow))
			if l.Kind == parser.KindImage && !l.URL.IsZero() {
				f.Facts.Images = append(f.Facts.Images, l.URL.String())
			}
		}
		f.Facts.Images = distinct(f.Facts.Images)
	}
	f.Facts.Bound()
	l := &out.Line
	*l = page.Line{SchemaVersion: page.SchemaVersion, URL: in.URL, Source: page.SourceName(page.SourceStart),
		Outcome: f.Outcome.String(), StatusCode: in.Status, CrawledAt: page.Time{Time: f.At}}
	l.SetFacts(&f.Facts)
	l.Indexable, l.IndexableReason = page.Indexable(l.URL.String(), f.Outcome, in.Status, &f.Facts, s.XMLTypes)
	return out, nil
}

// judge says what would become of a link of the page.
func (in *Inspected) judge(s *config.Settings, within *scope.Page, known *traps.Traps, l *parser.Link,
	nofollow bool) InspectedLink {
	out := InspectedLink{Href: l.Href, Kind: l.Kind.String(), Rel: l.Rel, Text: l.Text}
	if !l.URL.IsZero() {
		text := l.URL.String()
		out.URL = &text
	}
	switch why := judgeLink(s, within, l, nofollow, false); {
	case l.Kind >= parser.KindImage:
		out.Reason = l.Kind.String()
	case why != scope.InScope:
		out.Reason = why.String()
	default:
		if v, _ := known.Admit(&frontier.Link{URL: l.URL, Parent: in.URL}, false, nil); v.Trap != "" {
			out.Reason = "trap: " + v.Trap
		} else if !in.allowed(l.URL) {
			out.Reason = page.BlockedByRobots.String()
		} else {
			out.Follow = true
		}
	}
	return out
}
