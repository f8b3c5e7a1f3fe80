package crawl

import (
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
)

// finish is what became of a URL, while it is being found out.
type finish struct {
	outcome page.Outcome
	status  int
	at      time.Time
	bytes   int64
	facts   page.Facts
}

// record is the form that is stored. It is made by whoever found the facts: the frontier commits with its locks held.
func (f *finish) record() *frontier.Finish {
	return &frontier.Finish{
		Outcome: uint8(f.outcome), Status: uint16(f.status), CheckedAt: f.at, Bytes: uint64(max(f.bytes, 0)),
		RedirectTo: f.facts.RedirectTo, Facts: f.facts.Append(make([]byte, 0, 512)),
	}
}

// failure is a finish without a response.
func failure(o page.Outcome, why string, ev page.Robots) *frontier.Finish {
	f := finish{outcome: o, at: time.Now(), facts: page.Facts{Error: why, ContentLength: -1, ResponseTime: -1, Robots: ev}}
	return f.record()
}

// Sources of links, as numbers in the store. Append, never reorder.
const (
	sourceStart uint8 = iota
	sourceLink
	sourceRedirect
	sourceSitemap
	sourceCT
	sourceCommonCrawl
)

// sourceName is a source's name in sitemap.jsonl.
func sourceName(s uint8) string {
	names := [...]string{"start", "link", "redirect", "sitemap", "ct", "commoncrawl"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}
