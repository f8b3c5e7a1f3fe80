package frontier

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mapwright/mapwright/frontier/internal/memory"
)

// dump describes every host, for failing tests.
func dump(f *Frontier) string {
	var b strings.Builder
	asks, loads := f.jobs.Len()
	fmt.Fprintf(&b, "now %d live %d urls %d busy %d permits %d tickets %d starved %v jobs %d+%d open %d\n",
		f.clock.now(), f.live.Load(), f.urls.Load(), f.busy.Load(),
		f.permits.Used(), f.tickets.Used(), f.jobs.Starved(), loads, asks, f.gate.open.Load())
	for _, s := range f.shards.all {
		s.mu.Lock()
		fmt.Fprintf(&b, "shard %d: %d ready %d parked %d active, due %d\n", s.index, s.schedule.ready.Len(),
			s.schedule.parked.Len(), s.schedule.activeCount(), s.due.Load())
		for i := range s.hosts.end() {
			h := s.hosts.at(i)
			if h.id == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %s: %v flags %b pending %d leases %d waiting %d mem %d active %d due %d",
				s.hosts.name(h), h.why, h.flags, h.pending, h.leases, h.waiting, h.inMemory, h.active,
				s.schedule.time(i, h))
			for j := h.levels; j >= 0; j = s.queues.level(j).next {
				lv := s.queues.level(j)
				fmt.Fprintf(&b, " [%d: n %d disk %d leased %d waiting %d]", lv.priority, lv.n, lv.disk, lv.leased,
					lv.waiting)
			}
			for j := h.wait; j >= 0; j = s.queues.wait(j).next {
				fmt.Fprintf(&b, " (wait at %d text %v)", s.queues.wait(j).until, s.queues.wait(j).text != 0)
			}
			b.WriteByte('\n')
		}
		s.mu.Unlock()
	}
	return b.String()
}

// checkInvariants counts everything anew, and compares it with the counters that are kept. It is called in a bubble.
func checkInvariants(t testing.TB, f *Frontier) {
	t.Helper()
	synctest.Wait() // a loader may hold permits for what it reads
	var live, urls, pages, counted, busy, mem, robots int64
	var parts [partitions]int64
	var gated [depths]int64
	for _, s := range f.shards.all {
		s.mu.Lock()
		active, queued, givenUp := 0, 0, int64(0)
		allPending, allSitemaps, disk := int64(0), int64(0), int64(0)
		counted += s.count.hosts.pages
		leased := map[int32]int{}
		for _, l := range s.leases.out {
			leased[l.host]++
			if sitemap := l.kind == KindSitemap; l.kind.isQueued() &&
				sitemap != (s.queues.level(l.level).priority == PrioritySitemap) {
				t.Errorf("%s: a lease of a %v at priority %d", l.url, l.kind, l.priority)
			}
			if l.kind.isQueued() {
				mem++
			} else {
				robots++
			}
		}
		for i := range s.hosts.end() {
			h := s.hosts.at(i)
			if h.id == 0 {
				continue
			}
			live, urls, pages, busy, mem = live+h.counts.live, urls+h.counts.urls, pages+h.counts.pages,
				busy+h.counts.busy, mem+int64(h.inMemory)
			parts[h.id.Partition()] += h.counts.live
			if limited := h.limited(f.o.MaxURLsPerHost); h.counts != h.count(limited, f.o.SkipSitemaps) {
				t.Errorf("%s is counted as %+v, want %+v", s.hosts.name(h), h.counts,
					h.count(limited, f.o.SkipSitemaps))
			}
			recountGate(s, h, &gated)
			if h.flags&hostHeld != 0 && h.counts.givenUp != h.pages()-int64(h.pageLeases) || h.flags&hostHeld == 0 &&
				h.counts.givenUp != 0 {
				t.Errorf("%s: %d URLs are counted as given up, flags %b, pending %d", s.hosts.name(h), h.counts.givenUp,
					h.flags, h.pending)
			}
			givenUp += h.counts.givenUp
			if int(h.leases) != leased[i] {
				t.Errorf("%s has %d leases by its own count, %d by the shard's", s.hosts.name(h), h.leases, leased[i])
			}
			pending, sitemaps, inMemory, waiting := int64(0), int64(0), uint32(0), uint32(0)
			priority := -1
			for j := h.levels; j >= 0; j = s.queues.level(j).next {
				lv := s.queues.level(j)
				pending += int64(lv.pending())
				if lv.priority == PrioritySitemap {
					sitemaps = int64(lv.pending())
					if lv.leased != h.sitemapLeases || lv.ticketed != 0 {
						t.Errorf("%s: %d sitemaps are leased, want %d; %d have tickets", s.hosts.name(h),
							h.sitemapLeases, lv.leased, lv.ticketed)
					}
				}
				inMemory += lv.n
				waiting += lv.waiting
				disk += int64(lv.disk)
				if int(lv.priority) <= priority {
					t.Errorf("%s: levels out of order", s.hosts.name(h))
				}
				priority = int(lv.priority)
			}
			n := uint32(0)
			for j := h.wait; j >= 0; j = s.queues.wait(j).next {
				n++
				if s.queues.wait(j).text != 0 {
					inMemory++
				}
			}
			allPending += pending
			allSitemaps += sitemaps
			if sitemaps != h.sitemaps {
				t.Errorf("%s: %d sitemaps are pending, want %d", s.hosts.name(h), h.sitemaps, sitemaps)
			}
			if pending != h.pending || inMemory != h.inMemory || n != h.waiting || waiting != n {
				t.Errorf("%s: pending %d want %d, in memory %d want %d, waiting %d %d want %d", s.hosts.name(h),
					h.pending, pending, h.inMemory, inMemory, h.waiting, waiting, n)
			}
			if _, away := s.robots.waiting[i]; away != (h.flags&hostRobotsAway != 0) ||
				(len(s.robots.questions[i]) > 0) != (h.flags&hostRobotsAsked != 0) {
				t.Errorf("%s: flags %b, it waits: %v, %d questions", s.hosts.name(h), h.flags, away,
					len(s.robots.questions[i]))
			}
			if h.active >= 0 {
				active++
			}
			if s.schedule.time(i, h) != never {
				queued++
			}
		}
		if active != s.schedule.activeCount() || active > s.schedule.maxActive {
			t.Errorf("%d hosts are active, %d by the slab's count, of %d", active, s.schedule.activeCount(),
				s.schedule.maxActive)
		}
		if allPending != s.queues.pending || allSitemaps != s.queues.sitemaps || disk != s.queues.disk {
			t.Errorf("%d URLs are pending and %d on disk by the queues' count, %d and %d by their levels'",
				s.queues.pending, s.queues.disk, allPending, disk)
		}
		if givenUp != s.count.hosts.givenUp {
			t.Errorf("%d URLs are given up by the shard's count, %d by its hosts'", s.count.hosts.givenUp, givenUp)
		}
		if n := s.schedule.ready.Len() + s.schedule.parked.Len(); n != queued {
			t.Errorf("%d hosts are in the heaps, %d by their places", n, queued)
		}
		for _, heap := range []*memory.Heap{&s.schedule.ready, &s.schedule.parked} {
			if err := heap.Check(); err != nil {
				t.Error(err)
			}
			for _, n := range heap.Nodes(math.MaxInt) {
				if h := s.hosts.at(n.Item); h.id == 0 || (h.active >= 0) != (heap == &s.schedule.ready) {
					t.Errorf("%s is in the wrong heap", s.hosts.name(h))
				}
			}
		}
		for p := range parts {
			if got := f.parts.list[p].live; f.shards.ofPartition(uint8(p)) == s && got != parts[p] {
				t.Errorf("%d of partition %d are live, want %d", got, p, parts[p])
			}
		}
		s.mu.Unlock()
	}
	if got := f.robots.Used(); got != robots {
		t.Errorf("%d robots slots are in use, want %d", got, robots)
	}
	gated[0] += f.sources.Load()
	for d := range gated {
		if got := f.gate.count[d].Load(); f.gate.on && got != gated[d] {
			t.Errorf("the gate counts %d at depth %d, want %d", got, d, gated[d])
		}
	}
	live += f.sources.Load()
	if counted != pages {
		t.Errorf("the shards count %d pages that may be leased, want %d", counted, pages)
	}
	if live != f.live.Load() || urls != f.urls.Load() || busy != f.busy.Load() ||
		mem != f.permits.Used() {
		t.Errorf("live %d want %d, urls %d want %d, busy %d want %d, permits %d want %d", f.live.Load(), live,
			f.urls.Load(), urls, f.busy.Load(), busy, f.permits.Used(), mem)
	}
}

// recountGate adds what a host must add to the gate's counts: of each depth the URLs that may be leased in this run and
// those that are, and its robots leases.
func recountGate(s *shard, h *host, gated *[depths]int64) {
	for j := h.levels; j >= 0; j = s.queues.level(j).next {
		lv := s.queues.level(j)
		n := int64(lv.leased)
		sitemaps := lv.priority == PrioritySitemap
		switch {
		case h.flags&hostHeld != 0 || sitemaps && s.f.o.SkipSitemaps:
		case !sitemaps && h.limited(s.f.o.MaxURLsPerHost):
			for w := h.wait; w >= 0; w = s.queues.wait(w).next {
				if s.queues.wait(w).level == j && s.queues.wait(w).ticket {
					n++
				}
			}
		default:
			n += int64(lv.n) + int64(lv.disk) + int64(lv.waiting)
		}
		gated[depthOf(lv.priority)] += n
	}
	gated[0] += int64(h.leases) - int64(h.pageLeases) - int64(h.sitemapLeases)
}
