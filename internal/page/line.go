package page

// SchemaVersion stands first in every line of sitemap.jsonl. It changes when a field changes its meaning.
const SchemaVersion = 1

// Line is one line of sitemap.jsonl. Facts that are not known are left out. Tags and comments are as those of [Facts].
type Line struct {
	// `1`
	SchemaVersion int `json:"schema_version"`
	// the URL
	URL string `json:"url" schema:"url"`
	// links from the nearest start page. Start pages, entries of sitemaps and what other sources named have 0; a redirect adds nothing
	Depth int `json:"depth"`
	// the page, redirect or sitemap that first named it. Absent: start pages, `ct`, `commoncrawl`
	ParentURL string `json:"parent_url,omitempty" schema:"url"`
	// who named it first: `start` `link` `redirect` `sitemap` `ct` (certificate logs) `commoncrawl`
	Source string `json:"source" schema:"enum"`
	// when it was first named
	DiscoveredAt Time `json:"discovered_at,omitzero"`
	// when its outcome was settled, by an answer or without one. Absent: `pending`, `host_blocked`
	CrawledAt Time `json:"crawled_at,omitzero"`
	// what became of it: [below](#outcomes)
	Outcome string `json:"outcome" schema:"enum"`
	// status of the answer. Absent: there was no answer
	StatusCode int `json:"status_code,omitempty"`
	// what went wrong, for people. Of a trap, `trap: ` and which. Of a page whose `--extract` selectors could not be run, `extract: ` and why: it is nested too deeply, or its tree needs too much memory or time. Such a page keeps its outcome and its other facts. Absent: nothing went wrong
	Error string `json:"error,omitempty"`
	// how often its turn came in the run that settled it; most of these were requests. Absent: it was settled when it was found
	Attempts int `json:"attempts,omitempty"`

	Facts

	// whether it belongs into an XML sitemap
	Indexable bool `json:"indexable"`
	// why it does not: [below](#why-a-page-is-not-in-the-xml-sitemap). Absent: it does
	IndexableReason string `json:"indexable_reason,omitempty" schema:"enum"`
	// what robots.txt says of it: [below](#robots). Absent: it was never looked at, or `--ignore-robots`
	Robots *LineRobots `json:"robots,omitempty"`
}

// LineRobots is the evidence of robots.txt in a line.
type LineRobots struct {
	// `robots_allowed` or `blocked_by_robots`
	Evidence string `json:"evidence" schema:"enum"`
	// the line of robots.txt that decided, as it is written there, of a longer one the first 1,000 bytes. Absent: no rule matched
	Rule string `json:"rule,omitempty"`
	// seconds that robots.txt asks to wait between requests. Absent: it does not ask
	CrawlDelay float64 `json:"crawl_delay,omitempty"`
	// `high`; `low` if robots.txt could not be fetched and the answer is an assumption
	Confidence string `json:"confidence" schema:"enum"`
	// when it was decided
	CheckedAt Time `json:"checked_at,omitzero"`
}

// SetFacts fills in what comes from a fetch and a parse.
func (l *Line) SetFacts(f *Facts) {
	l.Facts, l.Error = *f, f.Error
	if f.Trap != "" {
		l.Error = "trap: " + f.Trap
	}
	if f.Robots.Checked {
		l.Robots = f.Robots.line()
	}
}

func (r Robots) line() *LineRobots {
	l := &LineRobots{Evidence: "robots_allowed", Rule: r.Rule, CrawlDelay: r.CrawlDelay.Seconds(), Confidence: "high", CheckedAt: Time{r.CheckedAt}}
	if !r.Allowed {
		l.Evidence = "blocked_by_robots"
	}
	if r.Low {
		l.Confidence = "low"
	}
	return l
}
