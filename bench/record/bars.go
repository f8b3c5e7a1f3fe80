package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// A bar is a limit for a figure, or for its ratio to that of another crawl of the same recording.
type bar struct {
	what   string
	limit  float64
	atMost bool // else at least
	aim    bool // a goal, not a limit

	name, unit string
	over       string // the other crawl; "" for the figure itself
}

// The benchmarks that bars are about.
const (
	scenarioA = "Crawl/scenario=a_one_host/crawler="
	scenarioB = "Crawl/scenario=b_500_hosts/crawler="
	scenarioC = "Crawl/scenario=c_20000_hosts/crawler="
	scenarioD = "Crawl/scenario=d_large_pages/crawler="
	growth    = "Growth/pages="
	recrawl   = "Recrawl/pages=1000000/crawl="
	perSecond = "pages/s"
)

// bars are all of them, in the order in which they are shown.
func bars() []bar {
	return []bar{
		{what: "(a) speed, × naive", limit: 2, name: scenarioA + "ours", unit: perSecond, over: scenarioA + "naive"},
		{what: "(a) speed, × bare", limit: 0.42, name: scenarioA + "ours", unit: perSecond, over: scenarioA + "bare"},
		{what: "(a) speed, × colly", limit: 8, name: scenarioA + "ours", unit: perSecond, over: scenarioA + "colly"},
		{what: "(b) speed, × naive", limit: 2, name: scenarioB + "ours", unit: perSecond, over: scenarioB + "naive"},
		{what: "(b) speed, × bare", limit: 0.6, name: scenarioB + "ours", unit: perSecond, over: scenarioB + "bare"},
		{what: "(c) speed, × bare", limit: 0.6, name: scenarioC + "ours", unit: perSecond, over: scenarioC + "bare"},
		{what: "(c) connections per host", limit: 1.3, atMost: true, name: scenarioC + "ours", unit: "conns/host"},
		{what: "(d) speed, × naive", limit: 3, name: scenarioD + "ours", unit: perSecond, over: scenarioD + "naive"},
		{what: "(a) CPU of the crawler per page, µs", limit: 110, atMost: true, name: scenarioA + "ours",
			unit: "cpu-µs/page"},
		{what: "(a) the same, as a goal", limit: 80, atMost: true, aim: true, name: scenarioA + "ours",
			unit: "cpu-µs/page"},
		{what: "(a) anonymous RSS without the hot set, MB", limit: 150, atMost: true, name: scenarioA + "ours",
			unit: "anon-less-hot-MB"},
		{what: "(b) anonymous RSS without the hot set, MB", limit: 400, atMost: true, name: scenarioB + "ours",
			unit: "anon-less-hot-MB"},
		{what: "3 million URLs: speed, × that at 100 thousand", limit: 0.8, name: growth + "3000000", unit: perSecond,
			over: growth + "100000"},
		{what: "3 million URLs: anonymous RSS, MB", limit: 1024, atMost: true, name: growth + "3000000",
			unit: "anon-MB"},
		{what: "10 million new URLs of 1 host: durable URLs/s", limit: 110_000,
			name: "FrontierOverBadger/urls=10000000/hosts=1", unit: "urls/s"},
		{what: "the same: last million, × first", limit: 0.7, name: "FrontierOverBadger/urls=10000000/hosts=1",
			unit: "last/first"},
		{what: "10 million new URLs of 100,000 hosts: durable URLs/s", limit: 110_000,
			name: "FrontierOverBadger/urls=10000000/hosts=100000", unit: "urls/s"},
		{what: "the same: last million, × first", limit: 0.7, name: "FrontierOverBadger/urls=10000000/hosts=100000",
			unit: "last/first"},
		{what: "10 million known URLs of 1 host, killed and resumed: seconds to the first fetch", limit: 5,
			atMost: true, name: "Resume/known=10000000/hosts=1", unit: "first-fetch-s"},
		{what: "10 million known URLs of 100,000 hosts, killed and resumed: seconds to the first fetch", limit: 5,
			atMost: true, name: "Resume/known=10000000/hosts=100000", unit: "first-fetch-s"},
		{what: "1 million pages, 1 % changed, crawled again: speed, × the first crawl", limit: 1, name: recrawl +
			"again", unit: perSecond, over: recrawl + "first"},
		{what: "the same: bytes written per page, log and view", limit: 200, atMost: true, name: recrawl + "again",
			unit: "written-B/page"},
		{what: "the same: bodies read per page", limit: 0.021, atMost: true, name: recrawl + "again",
			unit: "bodies/page"},
		{what: "the same: anonymous RSS, × the first crawl", limit: 1.1, atMost: true, name: recrawl + "again",
			unit: "anon-MB", over: recrawl + "first"},
		{what: "(b) over PostgreSQL: speed, × without a cluster", limit: 0.7, name: "Cluster/ratio",
			unit: "of-no-cluster"},
		{what: "the same: CPU of the engine for 100 pages, ms", limit: 0.5, atMost: true, name: "Cluster/ratio",
			unit: "engine-ms/100pages"},
		{what: "replay of its log, MB/s without compression", limit: 30, name: "Cluster/replay",
			unit: "uncompressed-MB/s"},
		{what: "three machines over a slow web: speed, × three times one", limit: 0.95,
			name: "ClusterSlowWeb/machines=3", unit: "of-linear"},
		{what: "a machine is killed, its requests take 5 s at most: seconds until its hosts are asked again", limit: 20,
			atMost: true, name: "Takeover", unit: "takeover-s"},
		{what: "the same, a partition of a million URLs", limit: 34, atMost: true, name: "TakeoverLarge",
			unit: "takeover-s"},
		{what: "1,000 crawls, 50 at once, 200 clients, 100 event streams: 99th percentile of reads, ms", limit: 200,
			atMost: true, name: "Service", unit: "read-p99-ms"},
		{what: "the same: lost events", limit: 0, atMost: true, name: "Service", unit: "lost-events"},
		{what: "100 open dashboards: CPU, % of the crawl's", limit: 5, atMost: true, name: "Dashboards/share",
			unit: "dashboards-cpu-%"},
		{what: "a million pages, the slowest filter: 99th percentile, ms", limit: 300, atMost: true,
			name: "Query/filter=contains-many", unit: "p99-ms"},
	}
}

// value is the figure, if it was taken.
func (b bar) value(f figures) (float64, bool) {
	v, ok := f.get(b.name, b.unit)
	if b.over == "" {
		return v, ok
	}
	other, also := f.get(b.over, b.unit)
	if !ok || !also || other == 0 {
		return 0, false
	}
	return v / other, true
}

func (b bar) holds(v float64) bool {
	if b.atMost {
		return v <= b.limit
	}
	return v >= b.limit
}

// text is the bar as it is written.
func (b bar) text() string {
	if b.atMost {
		return "≤ " + number(b.limit)
	}
	return "≥ " + number(b.limit)
}

// verdict is the figure and whether it holds, for a table.
func (b bar) verdict(v float64) string {
	switch {
	case b.holds(v):
		return number(v) + " PASS"
	case b.aim:
		return number(v) + " not yet"
	}
	return fmt.Sprintf("**%s MISS**", number(v))
}

// number writes three figures, or all of them before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
