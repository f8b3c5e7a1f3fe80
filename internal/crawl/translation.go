package crawl

import (
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// A translation is records on their way to the store, which keeps nothing of them. There are two for each page, so their memory is
// used again.
type translation struct {
	recs     []state.Record
	finishes []state.Finish
	links    []state.Link
}

// keepTranslated is for how many links memory is kept. A page has fewer; a list of seeds has more.
const keepTranslated = 1024

// translate fills t, with the verdicts of links behind all the rest, and returns how many those are.
func (t *translation) translate(recs []frontier.Record) (verdicts int, err error) {
	verdicts = t.reserve(recs)
	for i := range recs {
		if err := t.add(&recs[i]); err != nil {
			return 0, err
		}
	}
	for i := range recs {
		for j := range recs[i].Links {
			if l := &recs[i].Links[j]; l.Verdict != nil {
				t.recs = append(t.recs, state.Record{Finish: t.finish(l.Key, l.Verdict.(*finish), false, 0)})
			}
		}
	}
	return verdicts, nil
}

// reserve makes room for everything: what is pointed to must not move.
func (t *translation) reserve(recs []frontier.Record) (verdicts int) {
	finishes, links := 0, 0
	for i := range recs {
		if recs[i].Finish != nil {
			finishes++
		}
		links += len(recs[i].Links)
		for j := range recs[i].Links {
			if recs[i].Links[j].Verdict != nil {
				verdicts++
			}
		}
	}
	t.recs = slices.Grow(t.recs, len(recs)+verdicts)
	t.finishes = slices.Grow(t.finishes, finishes+verdicts)
	t.links = slices.Grow(t.links, links)
	return verdicts
}

func (t *translation) add(rec *frontier.Record) error {
	out := state.Record{Leased: rec.Leased, Returned: rec.Returned}
	if f := rec.Finish; f != nil {
		out.Finish = t.finish(f.Key, f.Payload.(*finish), f.Counted, f.Attempts)
	}
	from := len(t.links)
	for j := range rec.Links {
		t.links = append(t.links, storedLink(&rec.Links[j]))
	}
	out.Links = t.links[from:]
	for _, h := range rec.Hosts {
		fact, err := storedHost(h)
		if err != nil {
			return err
		}
		out.Hosts = append(out.Hosts, fact)
	}
	for _, c := range rec.Cursors {
		out.Cursors = append(out.Cursors, state.HostCursor{Host: c.Host, Low: stateCursor(c.Low)})
	}
	t.recs = append(t.recs, out)
	return nil
}

func (t *translation) finish(key frontier.Key, f *finish, counted bool, attempts int) *state.Finish {
	t.finishes = append(t.finishes, state.Finish{
		Key:        key,
		Outcome:    storedOutcome(f.outcome, counted),
		Status:     uint16(f.status),
		Attempts:   uint16(attempts),
		CrawledAt:  f.at,
		Bytes:      uint64(max(f.bytes, 0)),
		RedirectTo: f.facts.RedirectTo,
		Facts:      f.encoded,
	})
	return &t.finishes[len(t.finishes)-1]
}

// reset empties t and lets go of all that it led to.
func (t *translation) reset() {
	if cap(t.links) > keepTranslated {
		*t = translation{}
		return
	}
	clear(t.recs)
	clear(t.finishes)
	clear(t.links)
	t.recs, t.finishes, t.links = t.recs[:0], t.finishes[:0], t.links[:0]
}
