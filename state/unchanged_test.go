package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// logOverhead is what the log adds to a record, without the end of its batch.
const logOverhead = 9

// A page that has not changed costs a recrawl under 200 bytes in the log and in Badger together: a visit that is
// queued, and a finish that keeps the facts. The visits are in no order of the URLs, as those of a recrawl.
func TestUnchangedPageIsSmall(t *testing.T) {
	const pages = 5000
	s := open(t, t.TempDir()+"/s", still())
	var links []frontier.Link
	for i := range pages {
		u := mustURL(fmt.Sprintf("https://www.shop.example/products/department-%d/some-long-name-of-a-product-%d.html",
			i%97, i*7919))
		links = append(links, frontier.Link{URL: u, Key: s.Hasher().Key(u), Priority: frontier.PriorityDepth + 3,
			Depth: 3, Source: 1, Discovered: time.Now()})
	}
	commit(t, s, frontier.Record{Links: append([]frontier.Link{}, links...)})
	finish := frontier.Finish{Outcome: 1, Status: 200, Bytes: 48_000, Counted: true, Attempts: 1, CheckedAt: time.Now(),
		Facts: make([]byte, 400)}
	for _, l := range links {
		f := finish
		f.Key, f.Visit = l.Key, 1
		commit(t, s, frontier.Record{Finish: &f})
	}
	sizes := map[byte]int{}
	size := func(family byte) (total int) {
		if err := s.view.scan([]byte{family}, func(key, value []byte) error {
			total += len(key) + len(value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return total
	}
	families := []byte{record.FamQueue, record.FamFinish, record.FamVisit, record.FamURL, record.FamChange,
		record.FamNamed}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		sizes[family] = size(family)
	}

	logged := 0
	write := func(r frontier.Record) {
		logged += len(record.Append(nil, s.run, &r, &s.bodies)) + logOverhead
		commit(t, s, r)
	}
	rand.Shuffle(pages, func(i, j int) { links[i], links[j] = links[j], links[i] })
	for i := range links {
		links[i].Visit, links[i].Before = 2, finish.Summary()
	}
	for from := 0; from < pages; from += 4096 {
		write(frontier.Record{Visits: links[from:min(pages, from+4096)]})
	}
	for i, l := range links {
		f := finish
		f.Key, f.Visit, f.Generation, f.Before, f.Facts = l.Key, 2, 1, l.Before, nil
		f.KeepFacts, f.NotModified, f.Change = true, true, 3
		if i%2 == 0 { // in an earlier generation it has changed
			f.Changes, f.ChangedAt = 4, time.Now()
		}
		write(frontier.Record{Finish: &f})
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	view := 0
	for _, family := range families {
		grown := size(family) - sizes[family]
		view += grown
		t.Logf("family %c: %d bytes a page", family, grown/pages)
	}
	t.Logf("log: %d bytes a page", logged/pages)
	if all := (logged + view) / pages; all >= 200 {
		t.Errorf("%d bytes are written for an unchanged page, want less than 200", all)
	} else {
		t.Logf("%d bytes in all", all)
	}
}
