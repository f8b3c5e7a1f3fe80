// Package pagestats computes the figures behind the charts of a report in one pass over the pages of a crawl: sections
// of the site, response times, and pages over time. Its memory does not depend on the number of pages.
//
// Make a Collector, give See every page in the order of sitemap.jsonl, then ask for Figures.
package pagestats

import (
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// Figures are fields of report.json.
type Figures struct {
	// ResponseTimes are of all URLs that answered.
	ResponseTimes *ResponseTimes `json:"response_times,omitempty"`
	// Sections are the parts of the site, the largest first.
	Sections *Sections `json:"sections,omitempty"`
	// Timeline says how many URLs were found and settled over time, in this generation.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// ResponseTimes are quantiles, exact to the millisecond, and a histogram.
type ResponseTimes struct {
	Count   int64    `json:"count"`
	P50     int64    `json:"p50_ms"`
	P95     int64    `json:"p95_ms"`
	Max     int64    `json:"max_ms"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts the URLs whose response time is at most UpTo and above that of the bucket before. The last has no
// bound.
type Bucket struct {
	UpTo int64 `json:"up_to_ms,omitempty"`
	URLs int64 `json:"urls"`
}

// Sections are parts of the site, the largest first.
type Sections struct {
	Total int64     `json:"total"`
	Cut   int64     `json:"cut,omitempty"` // how many are not shown
	Items []Section `json:"items"`
}

// Section is a part of the site: the URLs of one origin with the same first directory. URLs beside the directories
// belong to the section of the root.
type Section struct {
	Section   string `json:"section"` // an address that ends in a slash
	URLs      int64  `json:"urls"`
	Indexable int64  `json:"indexable"`
	Bytes     int64  `json:"bytes"`            // of the bodies, after decompression
	P50       *int64 `json:"p50_ms,omitempty"` // of those that answered
	P95       *int64 `json:"p95_ms,omitempty"`
}

// Collector computes the figures. It is not safe for concurrent use.
type Collector struct {
	generation int
	times      histogram
	sections   sections
	timeline   timeline
}

// NewCollector makes a collector for pages of a crawl whose last generation is given.
func NewCollector(generation uint32) *Collector {
	return &Collector{generation: int(generation), timeline: timeline{buckets: map[int64]*Moment{},
		ms: steps()[0].Milliseconds()}}
}

// See takes one page. Pages come in the order of sitemap.jsonl: those of one host together, by URL.
func (c *Collector) See(l *page.Line) {
	ms := int64(-1)
	if l.ResponseTime != nil {
		ms = time.Duration(*l.ResponseTime).Milliseconds()
		c.times.add(ms)
	}
	c.sections.see(l, ms)
	if c.generation == 0 || l.Change == page.New.String() && l.Generation == c.generation {
		c.timeline.at(l.DiscoveredAt.Time, func(m *Moment) { m.Found++ })
	}
	if l.Generation == c.generation {
		c.timeline.at(l.CheckedAt.Time, func(m *Moment) { m.Crawled++ })
	}
}

// Figures are the figures of all pages that were seen. It is called once, at the end.
func (c *Collector) Figures() Figures {
	c.sections.end()
	return Figures{ResponseTimes: c.times.figures(), Sections: c.sections.list(), Timeline: c.timeline.figures()}
}
