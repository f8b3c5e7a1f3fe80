package crawl

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/state"
)

// tested is a crawl with the outputs that users get.
type tested struct {
	*Crawl
	outputs *results.Outputs
}

func newTested(shared *Shared, o Options) (*tested, error) {
	outputs := &results.Outputs{}
	o.Outputs = outputs
	c, err := New(shared, o)
	return &tested{c, outputs}, err
}

func (c *tested) Run(ctx context.Context) (*report.Report, error) {
	err := c.Crawl.Run(ctx)
	return c.outputs.Report, err
}

// Export writes the pages of the crawl, whether it runs or not.
func (c *tested) Export(ctx context.Context, o export.Options, types []string) (*export.Result, error) {
	asked, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	text, err := c.Crawl.Export(ctx, asked, types)
	if errors.Is(err, ErrNotRunning) {
		s, err := state.Open(c.o.Dir.State(), state.Options{Mode: state.ExistingOnly})
		if err != nil {
			return nil, err
		}
		res, err := report.Export(ctx, s, types, o)
		return res, errors.Join(err, s.Close())
	}
	if err != nil {
		return nil, err
	}
	res := &export.Result{}
	return res, json.Unmarshal(text, res)
}

func (c *tested) Pages(ctx context.Context, search report.Search) (lines []*page.Line, next weburl.Key, more bool,
	err error) {
	err = c.Read(ctx, func(s *state.Store, types []string) (err error) {
		lines, next, more, err = report.Find(ctx, s, types, search)
		return err
	})
	return lines, next, more, err
}

func (c *tested) Page(ctx context.Context, u weburl.URL) (line *page.Line, err error) {
	err = c.Read(ctx, func(s *state.Store, types []string) (err error) {
		line, err = report.One(ctx, s, types, u)
		return err
	})
	return line, err
}
