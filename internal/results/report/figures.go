package report

import (
	"context"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/clickdepth"
	"github.com/mapwright/mapwright/internal/results/pagestats"
	"github.com/mapwright/mapwright/state"
)

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

// graphBytes is how much memory links may take before they are sorted and written to a temporary file.
const graphBytes = 16 << 20

// figures gathers what the charts of a report need.
type figures struct {
	stats  *pagestats.Collector
	graph  *clickdepth.Graph // nil if links are not recorded
	depths []uint16          // by page, after fill; nil if links are not recorded
	failed error
}

func newFigures(s Store, links bool, generation uint32) *figures {
	f := &figures{stats: pagestats.NewCollector(generation)}
	if links {
		f.graph = clickdepth.New(s.Dir(), state.TempPattern, graphBytes)
	}
	return f
}

// see takes one page.
func (f *figures) see(l *page.Line) {
	f.stats.See(l)
	if f.graph != nil && f.failed == nil {
		f.failed = f.graph.Add(l)
	}
}

// fill puts the figures into a report.
func (f *figures) fill(ctx context.Context, r *Report) error {
	r.Figures = f.stats.Figures()
	r.ClickDepths = &ClickDepths{Why: "links were not recorded: a crawl with --links knows them"}
	if f.graph == nil || f.failed != nil {
		return f.failed
	}
	var err error
	if f.depths, err = f.graph.Depths(ctx); err != nil {
		return err
	}
	r.ClickDepths = countDepths(f.depths)
	return nil
}

func (f *figures) close() {
	if f.graph != nil {
		f.graph.Close()
	}
}

func countDepths(depths []uint16) *ClickDepths {
	c := &ClickDepths{Known: true}
	for _, d := range depths {
		if d == clickdepth.Unknown {
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

// shownSettings are the limits of a crawl, and the settings that differ from the defaults of its profile, without
// secrets. The names are those of a configuration file. If given is not nil, the others are of the operator of a
// service, and are not shown.
func shownSettings(s *config.Settings, given map[string]bool) map[string]any {
	shown := map[string]any{}
	usual := config.Defaults(s.Profile).Table()
	for i, e := range s.Redacted().Table() {
		key := config.FileKey(e.Name)
		limit := e.Group == config.Limits && (given == nil || e.Permission != config.Operator)
		if limit || !e.PerRun && (given == nil || given[key]) && e.Value.String() != usual[i].Value.String() {
			shown[key] = config.JSONValue(e.Value)
		}
	}
	return shown
}
