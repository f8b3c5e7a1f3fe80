// Package results makes the outputs of a crawl for package crawl: files, report.json and report.html. The packages
// below it read the record of a crawl and write one kind of output each.
package results

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/state"
)

// Outputs makes the outputs of one crawl. It implements crawl.Outputs.
type Outputs struct {
	mu sync.Mutex // one export at a time: they write under the same names

	// Report is what Finish made; nil before. It may be read when the run has ended.
	Report *report.Report
}

// Check returns datadir.ErrNotOurs if Finish would replace a file that Mapwright did not write.
func (o *Outputs) Check(s *config.Settings, starts []datadir.Start, dir datadir.Dir) error {
	err := cmp.Or(export.CheckReplace(report.ExportOptions(s, starts, dir)), datadir.CheckFile(dir.Problems()))
	if err == nil && s.Parquet {
		err = datadir.CheckFile(filepath.Join(string(dir), datadir.ProblemsParquetName))
	}
	return err
}

// Export writes the pages that are recorded so far. Options and result are the JSON of export.Options and
// export.Result.
func (o *Outputs) Export(ctx context.Context, s *state.Store, options json.RawMessage,
	types []string) (json.RawMessage, error) {
	var eo export.Options
	if err := json.Unmarshal(options, &eo); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	res, err := report.Export(ctx, s, types, eo)
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

// Finish writes the outputs of a crawl that has ended, then its report.
func (o *Outputs) Finish(ctx context.Context, e *monitor.Ended) error {
	rep, began := begin(e), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	known := len(rep.Warnings)
	if err := (*report.Crawl)(e).Complete(ctx, rep); err != nil {
		return err
	}
	if err := (*report.Crawl)(e).RemoveLeftOut(rep); err != nil {
		return err
	}
	for _, text := range rep.Warnings[known:] {
		e.Log.Warn(text)
	}
	rep.EndedAt, rep.ExportSeconds = page.Time{Time: time.Now()}, time.Since(began).Seconds()
	spent, err := e.Spent(ctx)
	if err != nil {
		return err
	}
	rep.StartedAt, rep.Runs, rep.Elapsed = page.Time{Time: spent.Began}, spent.Runs, spent.Elapsed.Seconds()
	if spent.Cluster != nil {
		describe(rep, spent.Cluster)
	}
	o.Report = rep
	return write(rep, e)
}

// begin is the part of the report that is known before the pages are read.
func begin(e *monitor.Ended) *report.Report {
	counters := e.Store.Counters()
	rep := &report.Report{
		SchemaVersion: report.Version, Version: e.Version, Status: e.Status, Success: e.Success, Reason: e.Reason,
		Errors: append([]string{}, e.Errors...), Warnings: e.Warnings, Profile: string(e.Settings.Profile),
		IgnoredRobots: e.Settings.IgnoreRobots, CrawlSeconds: e.Crawled.Seconds(), HotSetBytes: e.HotBytes,
		Pages: e.Pages, PagesPerSec: float64(e.Pages) / max(e.Crawled.Seconds(), 0.001),
		Bytes: int64(counters.Bytes), SkippedLinks: scope.SkippedSince(&counters, &state.Counters{}),
	}
	for _, s := range e.Starts {
		rep.StartURLs = append(rep.StartURLs, s.URL.String())
	}
	if e.Settings.IgnoreRobots {
		rep.Warnings = append(rep.Warnings, "robots.txt was ignored")
	}
	return rep
}

// describe puts what all machines did into the report.
func describe(rep *report.Report, h *session.History) {
	rep.Pages, rep.CrawlSeconds = int64(h.RunPages), h.RunUsed.Seconds()
	rep.PagesPerSec = float64(rep.Pages) / max(rep.CrawlSeconds, 0.001)
	rep.Cluster = &report.Cluster{Name: h.Name, Run: h.Run}
	for i := range h.Machines {
		f := &h.Machines[i]
		rep.Cluster.Takeovers += f.Takeovers
		rep.Cluster.Fenced += f.Fenced
		rep.Cluster.Machines = append(rep.Cluster.Machines, report.Machine{
			Name: f.Name, ID: f.ID, JoinedAt: page.Time{Time: f.Joined}, LastBeatAt: page.Time{Time: f.LastBeat},
			Sessions: f.Sessions,
			Pages:    f.Pages, Batches: f.Batches, Takeovers: f.Takeovers, Fenced: f.Fenced, Lost: f.Lost,
		})
	}
}

// write writes report.html and report.json. A report.html that Mapwright did not write stays, and report.json says so.
func write(rep *report.Report, e *monitor.Ended) error {
	hidePaths(e, rep.Warnings)
	hidePaths(e, rep.Errors)
	switch err := ui.Write(e.Dir, rep); {
	case errors.Is(err, datadir.ErrNotOurs):
		rep.Warnings = append(rep.Warnings, err.Error())
		hidePaths(e, rep.Warnings)
		rep.Files = slices.DeleteFunc(rep.Files, func(name string) bool { return name == datadir.ReportHTMLName })
		e.Log.Warn(err.Error())
	case err != nil:
		return err
	}
	return report.Write(e.Dir, rep)
}

// hidePaths removes the path of the data directory from texts that a user of a service reads.
func hidePaths(e *monitor.Ended, texts []string) {
	for i := range texts {
		if e.Given != nil {
			texts[i] = e.Dir.Hide(texts[i])
		}
	}
}
