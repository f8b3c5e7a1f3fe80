package crawl

import (
	"fmt"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
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
// Facts of a page that are too many for a record are left out, and its error says so.
func (f *finish) record() *frontier.Finish {
	facts := f.facts.Append(make([]byte, 0, 512))
	if len(facts) > maxFacts {
		f.facts.Links, f.facts.Images, f.facts.Extracted = nil, nil, nil
		f.facts.Error = fmt.Sprintf("its links, images and extracted values are not recorded: together they have %d bytes, and the limit is %d", len(facts), maxFacts)
		facts = f.facts.Append(facts[:0])
	}
	return &frontier.Finish{
		Outcome: uint8(f.outcome), Status: uint16(f.status), CheckedAt: f.at, Bytes: uint64(max(f.bytes, 0)),
		RedirectTo: f.facts.RedirectTo, Facts: facts,
	}
}

// maxFacts bounds the facts of one page, in bytes. A record of the store must hold them and a little more. Only a page with most of 8 MiB of
// links under --links, and several --extract that each find 256 long values, has as many.
const maxFacts = state.MaxRecordSize - 1<<20

// failure is a finish without a response.
func failure(o page.Outcome, why string, ev page.Robots) *frontier.Finish {
	f := finish{outcome: o, at: time.Now(), facts: page.Facts{Error: why, Robots: ev}}
	return f.record()
}
