package crawl

import (
	"testing"

	"github.com/mapwright/mapwright/internal/testweb"
)

// The crawl of a host with traps ends, finds all its real pages, asks for few URLs of the traps and names them.
func TestTrappedHosts(t *testing.T) {
	// Pages that are read at the same time may all bring their links before the first of these is on record.
	const workers = 64
	listed := func(links int) int { return maxTrapsListed + workers*links }
	for _, c := range []struct {
		fault testweb.Fault
		trap  string
		asked int // requests inside the trap, at most
		named int // URLs called a trap, at most
	}{
		{testweb.CalendarTrap{}, TrapCalendar, 1000, listed(6)},
		{testweb.SessionTrap{Items: 30}, TrapSession, 1, 30},
		{testweb.ParameterTrap{}, TrapVariants, 2000, listed(16)},
		{testweb.PathTrap{}, TrapRepeats, 300, 300},
		{testweb.LongURL{}, TrapLength, 0, 1},
	} {
		t.Run(c.fault.Kind(), func(t *testing.T) {
			web := startWeb(t, testweb.Config{Seed: 5, Pages: 100, PageSize: 2000, Links: 8, Faults: testweb.OnAll(c.fault)})
			s := quick(web)
			s.MaxWorkers = workers
			rep, lines := crawlAll(t, s, web.StartURLs()...)
			foundExactly(t, web, testweb.Crawl{}, lines)
			wellBehaved(t, web)
			named := 0
			for _, l := range lines {
				if trap := l.trap(); trap == c.trap {
					named++
				} else if trap != "" {
					t.Errorf("%s is called %s", l.URL, trap)
				}
			}
			asked := web.HostBooks(0).Traps.Count
			t.Logf("%d requests inside, %d URLs called a trap, %d links left out", asked, named, rep.SkippedLinks[string(Trapped)])
			if named == 0 || named > c.named || asked > c.asked {
				t.Errorf("%d requests inside, want at most %d; %d URLs called a trap, want 1 to %d", asked, c.asked, named, c.named)
			}
		})
	}
}
