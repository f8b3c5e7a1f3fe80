package crawl

import (
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// finish is what the crawl gives the frontier as a URL's end; the store's adapter turns it into a record.
type finish struct {
	outcome page.Outcome
	status  int
	at      time.Time
	bytes   int64
	facts   page.Facts
	encoded []byte // facts as stored; made by encode
}

// encode makes the stored form. It is done by whoever found the facts: the frontier commits with its locks held.
func (f *finish) encode() { f.encoded = f.facts.Append(make([]byte, 0, 512)) }

// failure is a finish without a response, encoded.
func failure(o page.Outcome, why string, ev page.Robots) *finish {
	f := &finish{outcome: o, at: time.Now(), facts: page.Facts{Error: why, ContentLength: -1, ResponseTime: -1, Robots: ev}}
	f.encode()
	return f
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

// countedBit marks, in a stored outcome, a URL that used up one of the pages that limits count. The store counts by outcome, so
// it counts these too.
const countedBit = 0x20

func storedOutcome(o page.Outcome, counted bool) uint8 {
	if counted {
		return uint8(o) | countedBit
	}
	return uint8(o)
}

// OutcomeOf reads a stored outcome.
func OutcomeOf(stored uint8) (o page.Outcome, counted bool) {
	return page.Outcome(stored &^ countedBit), stored&countedBit != 0
}
