package bench

import (
	"os"
	"strconv"
)

// Scenario is a web to crawl.
type Scenario struct {
	Name     string
	Hosts    int
	Pages    int // of each host
	PageSize int
	Links    int
	Cross    float64  // share of links to other hosts
	Changes  string   // how pages change between generations, as testweb has it; empty means not at all
	Web      []string // further flags of testweb
	// Turns is how often each crawler crawls in one run. They take turns, because a crawl takes seconds and the speed
	// of a shared machine changes from minute to minute: a figure of the run is the median of its turns. A scenario has
	// the more of them the nearer its figures are to what they must be.
	Turns int
	// PeerTurns is in how many turns other crawlers take part, which are slow.
	PeerTurns int
}

// URLs is how many pages there are.
func (s Scenario) URLs() int { return s.Hosts * s.Pages }

// Scenarios are what the speed is judged by: one large site, a few hundred hosts, very many small hosts, and large
// pages.
func Scenarios() []Scenario {
	all := []Scenario{
		{Name: "a_one_host", Hosts: 1, Pages: 50_000, PageSize: 10 << 10, Links: 30, Turns: 9, PeerTurns: 9},
		{Name: "b_500_hosts", Hosts: 500, Pages: 200, PageSize: 10 << 10, Links: 30, Cross: 0.2, Turns: 5,
			PeerTurns: 1},
		{Name: "c_20000_hosts", Hosts: 20_000, Pages: 5, PageSize: 10 << 10, Links: 30, Cross: 0.5, Turns: 5},
		{Name: "d_large_pages", Hosts: 1, Pages: 5_000, PageSize: 200 << 10, Links: 200, Turns: 5},
	}
	if Smoke() {
		for i := range all {
			all[i].Hosts = min(all[i].Hosts, 20)
			all[i].Pages = min(all[i].Pages, 100)
			all[i].Turns = 1
		}
	}
	return all
}

// Growth is scenario a at other sizes.
func Growth(pages int) Scenario {
	return Scenario{Name: "growth_" + strconv.Itoa(pages), Hosts: 1, Pages: pages, PageSize: 10 << 10, Links: 30}
}

// Recrawl is scenario a at other sizes, on a web where one page in a hundred changes from one generation to the next.
func Recrawl(pages int) Scenario {
	s := Growth(pages)
	s.Name, s.Changes = "recrawl_"+strconv.Itoa(pages), "sometimes=1 rate=0.01"
	return s
}

// Smoke says whether the run is only to show that everything runs.
func Smoke() bool { return os.Getenv("MAPWRIGHT_BENCH") == "smoke" }
