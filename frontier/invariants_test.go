package frontier

import (
	"fmt"
	"strings"
	"testing"
)

// dump describes every host, for failing tests.
func dump(f *Frontier) string {
	var b strings.Builder
	fmt.Fprintf(&b, "now %d live %d pages %d busy %d permits %d tickets %d starved %v retry %v jobs %d+%d open %d\n", f.clock(), f.live.Load(), f.pages.Load(), f.busy.Load(),
		f.permits.used.Load(), f.tickets.used.Load(), f.loader.starved.Load(), f.loader.retry, len(f.loader.loads), len(f.loader.asks), f.gate.open.Load())
	for _, s := range f.shards {
		s.mu.Lock()
		fmt.Fprintf(&b, "shard %d: %d ready %d parked %d seats, due %d\n", s.index, len(s.ready.nodes), len(s.parked.nodes), s.seats.len(), s.due.Load())
		for i := range s.hosts.n {
			h := s.hosts.at(i)
			if h.id == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %s: %v flags %b pending %d leases %d waiting %d mem %d seat %d place %d", s.nameOf(h), h.why, h.flags, h.pending, h.leases, h.waiting, h.inMemory, h.seat, s.places[i])
			for j := h.levels; j >= 0; j = s.levels.at(j).next {
				lv := s.levels.at(j)
				fmt.Fprintf(&b, " [%d: n %d disk %d leased %d waiting %d]", lv.class, lv.n, lv.disk, lv.leased, lv.waiting)
			}
			for j := h.wait; j >= 0; j = s.waits.at(j).next {
				fmt.Fprintf(&b, " (wait at %d text %v)", s.waits.at(j).at, s.waits.at(j).text != 0)
			}
			b.WriteByte('\n')
		}
		s.mu.Unlock()
	}
	return b.String()
}

// checkInvariants holds the shards' books against each other.
func checkInvariants(t testing.TB, f *Frontier) {
	t.Helper()
	var live, pages, counted, busy, mem int64
	for _, s := range f.shards {
		s.mu.Lock()
		seats, givenUp := 0, int64(0)
		counted += s.count.pages
		leased := map[int32]int{}
		for _, l := range s.leases {
			leased[l.host]++
			if l.kind == KindPage {
				mem++
			}
		}
		for i := range s.hosts.n {
			h := s.hosts.at(i)
			if h.id == 0 {
				continue
			}
			live, pages, busy, mem = live+h.live, pages+h.pages, busy+h.busy, mem+int64(h.inMemory)
			if h.flags&hostHeld != 0 && h.givenUp != h.pending-int64(h.pageLeases) || h.flags&hostHeld == 0 && h.givenUp != 0 {
				t.Errorf("%s: %d URLs are counted as given up, flags %b, pending %d", s.nameOf(h), h.givenUp, h.flags, h.pending)
			}
			givenUp += h.givenUp
			if int(h.leases) != leased[i] {
				t.Errorf("%s has %d leases by its own count, %d by the shard's", s.nameOf(h), h.leases, leased[i])
			}
			pending, inMemory, waiting := int64(0), uint32(0), uint32(0)
			class := -1
			for j := h.levels; j >= 0; j = s.levels.at(j).next {
				lv := s.levels.at(j)
				pending += int64(lv.pending())
				inMemory += lv.n
				waiting += lv.waiting
				if int(lv.class) <= class {
					t.Errorf("%s: levels out of order", s.nameOf(h))
				}
				class = int(lv.class)
			}
			n := uint32(0)
			for j := h.wait; j >= 0; j = s.waits.at(j).next {
				n++
				if s.waits.at(j).text != 0 {
					inMemory++
				}
			}
			if pending != h.pending || inMemory != h.inMemory || n != h.waiting || waiting != n {
				t.Errorf("%s: pending %d want %d, in memory %d want %d, waiting %d %d want %d", s.nameOf(h), h.pending, pending, h.inMemory, inMemory, h.waiting, waiting, n)
			}
			if _, away := s.asks.away[i]; away != (h.flags&hostRobotsAway != 0) || (len(s.asks.questions[i]) > 0) != (h.flags&hostRobotsAsked != 0) {
				t.Errorf("%s: flags %b, it waits: %v, %d questions", s.nameOf(h), h.flags, away, len(s.asks.questions[i]))
			}
			if h.seat >= 0 {
				seats++
			}
			if place := s.places[i]; place > 0 {
				heap := &s.ready
				if h.seat < 0 {
					heap = &s.parked
				}
				if heap.nodes[place-1].host != i {
					t.Errorf("%s is not where it should be in its heap", s.nameOf(h))
				}
			}
		}
		if seats != s.seats.len() || seats > s.maxSeats {
			t.Errorf("%d seats are taken, %d by the slab's count, of %d", seats, s.seats.len(), s.maxSeats)
		}
		if givenUp != s.count.givenUp {
			t.Errorf("%d URLs are given up by the shard's count, %d by its hosts'", s.count.givenUp, givenUp)
		}
		for _, heap := range []*hostHeap{&s.ready, &s.parked} {
			for j := 1; j < len(heap.nodes); j++ {
				if heap.nodes[j].at < heap.nodes[(j-1)/heapArity].at {
					t.Error("a heap is out of order")
				}
			}
		}
		s.mu.Unlock()
	}
	live += f.sources.Load()
	if counted != pages {
		t.Errorf("the shards count %d pages that may be leased, want %d", counted, pages)
	}
	if live != f.live.Load() || pages != f.pages.Load() || busy != f.busy.Load() || mem != f.permits.used.Load() {
		t.Errorf("live %d want %d, pages %d want %d, busy %d want %d, permits %d want %d", f.live.Load(), live,
			f.pages.Load(), pages, f.busy.Load(), busy, f.permits.used.Load(), mem)
	}
}
