package page

import "github.com/mapwright/mapwright/frontier/weburl"

// SchemaVersion stands first in every line of sitemap.jsonl. It changes when a field changes its meaning.
const SchemaVersion = 1

// Line is one line of sitemap.jsonl. Facts that are not known are left out. Tags and comments are as those of [Facts].
type Line struct {
	// `1`
	SchemaVersion int `json:"schema_version"`
	// the URL
	URL weburl.URL `json:"url" schema:"url"`
	// links from the nearest start page when the URL was found; recrawls keep it. Start pages, entries of sitemaps and
	// what other sources named have 0; a redirect adds nothing
	Depth int `json:"depth"`
	// the page, redirect or sitemap that first named it. Absent: start pages, `ct`, `commoncrawl`
	ParentURL string `json:"parent_url,omitempty" schema:"url"`
	// who named it first: `start` `link` `redirect` `sitemap` `ct` (certificate logs) `commoncrawl`
	Source string `json:"source" schema:"enum"`
	// when it was first named
	DiscoveredAt Time `json:"discovered_at,omitzero"`
	// when its outcome was settled and its facts were read, by an answer or without one. A later check that finds the
	// page unchanged without reading it, or fails, leaves it. Absent: `pending`, `host_blocked`
	CrawledAt Time `json:"crawled_at,omitzero"`
	// what became of it: [below](#outcomes)
	Outcome string `json:"outcome" schema:"enum"`
	// status of the answer. Absent: there was no answer
	StatusCode int `json:"status_code,omitempty"`
	// what went wrong, for people; the first 1,024 bytes and `…` if it is longer. Of a trap, `trap: ` and which. Of a
	// page whose `--extract` selectors could not be run, `extract: ` and why: it is nested too deeply, or its tree
	// needs too much memory or time. Such a page keeps its outcome and its other facts. Absent: nothing went wrong
	Error string `json:"error,omitempty"`
	// how often its turn came in the run that settled it; most of these were requests. Absent: it was settled when it
	// was found
	Attempts int `json:"attempts,omitempty"`

	Facts

	// true: a sitemap of the site lists it, in a recrawl one that this recrawl read. Absent: none that was read does
	InSitemap bool `json:"in_sitemap,omitempty"`
	// whether it belongs into an XML sitemap
	Indexable bool `json:"indexable"`
	// why it does not: [below](#why-a-page-is-not-in-the-xml-sitemap). Absent: it does
	IndexableReason string `json:"indexable_reason,omitempty" schema:"enum"`
	// what robots.txt says of it: [below](#robots). Absent: it was never looked at, or `--ignore-robots`
	Robots *LineRobots `json:"robots,omitempty"`

	// the generation that last checked it: 0 is the first crawl, 1 the first recrawl. Of a URL that was never checked,
	// 0
	Generation int `json:"generation"`
	// the same as `discovered_at`
	FirstSeenAt Time `json:"first_seen_at,omitzero"`
	// when it was last checked. Absent: `pending`, `host_blocked`
	CheckedAt Time `json:"checked_at,omitzero"`
	// when a check last found a change. Absent: none has
	ChangedAt Time `json:"changed_at,omitzero"`
	// what its last check in a recrawl found: [below](#changes). Absent: never checked in a recrawl, or that check
	// failed
	Change string `json:"change,omitempty" schema:"enum"`
	// recrawls in a row that could not check it and kept what was known: its outcome and facts are those of the last
	// check that succeeded. After three, it is recorded as it is. Absent: the last check succeeded
	Stale int `json:"stale,omitempty"`
	// true: its text differs a little at every check, at least three times in a row, so that a change says nothing and
	// XML sitemaps have no `lastmod` for it. Absent: not so
	Volatile bool `json:"volatile,omitempty"`
	// true: the page that first linked to it is there, was read again, and links to it no more, and no page or sitemap
	// that was read since names it. Pages that are unchanged are not read again; one of them may still link to it.
	// Absent: not so
	Unlinked bool `json:"unlinked,omitempty"`

	// a page links to it or a redirect leads to it, as far as that is on record without its links
	Linked bool     `json:"-"`
	Hops   []string `json:"-"` // of a redirect: where it leads, from the first target to the last
}

// LineRobots is the evidence of robots.txt in a line.
type LineRobots struct {
	// `robots_allowed` or `blocked_by_robots`
	Evidence string `json:"evidence" schema:"enum"`
	// the line of robots.txt that decided, as it is written there, of a longer one the first 1,000 bytes. Absent: no
	// rule matched
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
	l.Volatile = f.Volatile()
}

func (r Robots) line() *LineRobots {
	l := &LineRobots{Evidence: "robots_allowed", Rule: r.Rule, CrawlDelay: r.CrawlDelay.Seconds(), Confidence: "high",
		CheckedAt: Time{r.CheckedAt}}
	if !r.Allowed {
		l.Evidence = "blocked_by_robots"
	}
	if r.Low {
		l.Confidence = "low"
	}
	return l
}
