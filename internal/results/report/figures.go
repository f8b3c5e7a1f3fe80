package report

import (
	"context"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/state"
)

// Figures are what the charts of report.html show, except click depths.
type Figures struct {
	// ResponseTimes are of all URLs that answered.
	ResponseTimes *ResponseTimes `json:"response_times,omitempty"`
	// Sections are the parts of the site, the largest first.
	Sections *List[Section] `json:"sections,omitempty"`
	// Timeline says how many URLs were found and settled over time, in this generation.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// ClickDepths are URLs by the clicks that lead to them from the nearest start page, over the recorded links; a redirect
// adds nothing.
type ClickDepths struct {
	Known bool   `json:"known"`
	Why   string `json:"why,omitempty"` // why they are not known
	// Unreachable URLs are those that no recorded link leads to, such as pages that only a sitemap names.
	Unreachable int64        `json:"unreachable,omitempty"`
	Depths      []ClickDepth `json:"depths,omitempty"`
}

// ClickDepth counts the URLs at one distance.
type ClickDepth struct {
	Clicks int   `json:"clicks"`
	URLs   int64 `json:"urls"`
}

// figures gathers what the charts of a report need, in one pass over the pages. Memory does not grow with their number,
// except by two bytes for each page if links are recorded.
type figures struct {
	generation int
	times      histogram
	sections   sections
	timeline   timeline
	graph      *clickGraph // nil if links are not recorded
	depths     []uint16    // by page, after fill; nil if links are not recorded
	failed     error       // of graph
}

func newFigures(generation uint32) *figures {
	return &figures{generation: int(generation), timeline: timeline{buckets: map[int64]*Moment{},
		ms: steps()[0].Milliseconds()}}
}

// see takes one page. Pages come in the order of sitemap.jsonl: those of one host together, by URL.
func (f *figures) see(l *page.Line) {
	ms := int64(-1)
	if l.ResponseTime != nil {
		ms = time.Duration(*l.ResponseTime).Milliseconds()
		f.times.add(ms)
	}
	f.sections.see(l, ms)
	if f.generation == 0 || l.Change == page.New.String() && l.Generation == f.generation {
		f.timeline.at(l.DiscoveredAt.Time, func(m *Moment) { m.Found++ })
	}
	if l.Generation == f.generation {
		f.timeline.at(l.CheckedAt.Time, func(m *Moment) { m.Crawled++ })
	}
	if f.graph != nil && f.failed == nil {
		f.failed = f.graph.Add(l)
	}
}

// all returns the figures except click depths. It is called once, at the end.
func (f *figures) all() Figures {
	f.sections.end()
	return Figures{ResponseTimes: f.times.figures(), Sections: f.sections.list(), Timeline: f.timeline.figures()}
}

// fill puts the figures into a report.
func (f *figures) fill(ctx context.Context, r *Report) error {
	r.Figures = f.all()
	r.ClickDepths = &ClickDepths{Why: "links were not recorded: a crawl with --links knows them"}
	if f.graph == nil {
		return nil
	}
	err := f.failed
	if err == nil {
		f.depths, err = f.graph.Depths(ctx)
	}
	if why := whyNoRoom(err); why != "" {
		r.ClickDepths.Why = "they were not computed: " + why
		return nil
	}
	if err == nil {
		r.ClickDepths = countDepths(f.depths)
	}
	return err
}

func (f *figures) close() {
	if f.graph != nil {
		f.graph.Close()
	}
}

func countDepths(depths []uint16) *ClickDepths {
	c := &ClickDepths{Known: true}
	for _, d := range depths {
		if d == pageindex.NoDepth {
			c.Unreachable++
			continue
		}
		for int(d) >= len(c.Depths) {
			c.Depths = append(c.Depths, ClickDepth{Clicks: len(c.Depths)})
		}
		c.Depths[d].URLs++
	}
	return c
}

// sortSpace is the room that all sorts of one pass over the pages share: 96 MiB of memory, and what a full disk leaves.
func sortSpace(s *state.Store, room *datadir.Room) extsort.Space {
	return extsort.Space{Dir: s.Dir(), Pattern: state.TempPattern, Bytes: 96 << 20,
		Bound: func(bytes int64) error { return room.Spill(s.Dir(), bytes) }}
}

// optional is a part of the room for sorts that a crawl can do without: they also keep to the plan of the account, and
// fail with a *datadir.NoRoomError.
func (c *Crawl) optional(sorts extsort.Space) extsort.Space {
	sorts.Bound = func(bytes int64) error { return c.Room.Scratch(sorts.Dir, bytes) }
	return sorts
}
