package crawl

import (
	"slices"
	"testing"

	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/crawl/traps"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The crawl of a host with traps ends, finds all its real pages, asks for few URLs of the traps and names them.
func TestTrappedHosts(t *testing.T) {
	long.Test(t)
	const workers = 64
	for _, c := range []struct {
		fault testweb.Fault
		trap  []string // what may be
		asked int      // requests inside the trap, at most
		named int      // URLs called a trap, at most
	}{
		{testweb.CalendarTrap{}, []string{traps.Sequence}, 700, 700 * 6},
		// All its pages show the same, so that it is no matter of parameters.
		{testweb.SessionTrap{Items: 30}, []string{traps.Sequence}, 700, 700 * 30},
		{testweb.ParameterTrap{}, []string{traps.Combinations, traps.Sequence}, 700, 700 * 16},
		{testweb.PathTrap{}, []string{traps.Repeats}, 300, 300},
		{testweb.LongURL{}, []string{traps.Length}, 0, 1},
	} {
		t.Run(c.fault.Kind(), func(t *testing.T) {
			web := startWeb(t, testweb.Config{Seed: 5, Pages: 100, PageSize: 2000, Links: 8,
				Faults: testweb.OnAll(c.fault)})
			s := quick(web)
			s.MaxWorkers = workers
			rep, lines := crawlAll(t, s, web.StartURLs()...)
			foundExactly(t, web, testweb.Crawl{}, lines)
			wellBehaved(t, web)
			named := 0
			for _, l := range lines {
				if trap := l.trap(); slices.Contains(c.trap, trap) {
					named++
				} else if trap != "" {
					t.Errorf("%s is called %s", l.URL, trap)
				}
			}
			asked := web.HostStats(0).Traps.Count
			t.Logf("%d requests inside, %d URLs called a trap, %d links left out", asked, named,
				rep.SkippedLinks[scope.Trapped.String()])
			if named == 0 || named > c.named || asked > c.asked {
				t.Errorf("%d requests inside, want at most %d; %d URLs called a trap, want 1 to %d", asked, c.asked,
					named, c.named)
			}
		})
	}
}
