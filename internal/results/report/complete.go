package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/state"
)

// Crawl is a crawl that has ended. Its outputs and its report are made from it. If Given is not nil, the report is for
// a user of a service.
type Crawl monitor.Ended

// Complete writes the pages to the files of the data directory, and adds to the report what they say.
func (c *Crawl) Complete(ctx context.Context, rep *Report) error {
	generation, err := page.Generation(c.Store.Facts())
	if err != nil {
		return err
	}
	// The sort of pages has a quarter of the space, redirects and click depths have a sixth each, and problems the
	// rest.
	sorts := sortSpace(c.Store, c.Room)
	sixth, rest := sorts.Part(6), sorts
	rest.Bytes -= sorts.Part(4).Bytes + 2*sixth.Bytes
	sum := newSummary(c.optional(sixth))
	defer sum.redirects.close()
	sum.changes.generation = generation
	bare := map[string]bool{} // start URLs that were bare domains
	for _, s := range c.Starts {
		if s.Bare {
			bare[s.URL.String()] = true
		}
	}
	sum.isHTTPSTry = func(l *page.Line) bool { return c.isHTTPSTry(ctx, l, bare) }
	o := ExportOptions(c.Settings, c.Starts, c.Dir)
	o.Room = c.Room
	checks, err := readChecks(ctx, c.Store)
	if err != nil {
		return err
	}
	o.Checked = checks.of
	finder, err := c.newFinder(ctx, generation, rest, checks.of)
	if err != nil {
		return err
	}
	defer finder.Close()
	figures := newFigures(generation)
	if c.Settings.RecordsLinks() {
		figures.graph = newClickGraph(c.optional(sixth))
	}
	defer figures.close()
	index := pageindex.NewBuilder(string(c.Dir))
	defer index.Close()
	o.Each = func(l *page.Line, line []byte) {
		if line != nil {
			index.Add(l, line)
		}
		sum.see(l)
		figures.see(l)
		if sum.isFailedHTTPSTry(l) {
			finder.Skip()
		} else {
			_ = finder.See(l) // Join returns the error again
		}
	}
	if generation > 0 {
		o.Changes = func(ctx context.Context) iter.Seq2[*recrawl.Line, error] {
			return sum.changes.tally(Changes(ctx, c.Store, c.Room, generation, page.NoChange))
		}
		// A recrawl that failed replaces no output.
		o.DryRun = rep.Status == page.Failed
	}
	res, err := export.Write(ctx, Pages(c.Store, c.Settings.XMLTypes, c.Room), o)
	if err != nil {
		return err
	}
	if err := sum.hosts.wait(ctx, c.Store); err != nil {
		return err
	}
	if err := sum.fill(ctx, rep); err != nil {
		return err
	}
	if err := figures.fill(ctx, rep); err != nil {
		return err
	}
	rep.Settings = c.Settings.Shown(c.Given)
	if o.DryRun {
		rep.Warnings = append(rep.Warnings,
			"this recrawl failed, so the outputs of the crawl before it were not replaced"+c.advice("export", "",
				"writes what is recorded"))
	}
	if err := c.follow(ctx, rep); err != nil {
		return err
	}
	found, err := c.find(ctx, finder, rep, o.DryRun)
	if err != nil {
		return fmt.Errorf("find problems: %w", err)
	}
	defer found.Close()
	if !o.DryRun {
		err := index.Finish(pageindex.Extra{ClickDepths: figures.depths, Problems: found.Marks(ctx)})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // everything but lists of pages in a service works without it
			rep.Warnings = append(rep.Warnings, err.Error())
		}
	}
	rep.Warnings = append(rep.Warnings, sum.warnings(rep, c.advice, c.DryRun)...)
	if res.Excluded > 0 && res.Excluded == res.Indexable {
		rep.Warnings = append(rep.Warnings,
			"no XML sitemap was written, because exclude-from-sitemap leaves out all indexable pages")
	}
	rep.Sitemaps = res.Sitemaps
	if rep.Files = append(res.Files, "report.json", "report.html"); !o.DryRun {
		rep.Files = append(rep.Files, datadir.ProblemsName)
		if c.Settings.Parquet {
			rep.Files = append(rep.Files, datadir.ProblemsParquetName)
		}
	}
	rep.Files = slices.DeleteFunc(rep.Files, c.Room.HasLeftOut)
	archives, err := c.Dir.Archives()
	rep.Files = append(rep.Files, archives...)
	return err
}

// advice is the end of a warning: the command that helps, followed by a flag. Users of a service have no command line,
// so it is empty for them.
func (c *Crawl) advice(command, flag, helps string) string {
	if c.Given != nil {
		return ""
	}
	return ": '" + c.Dir.Command(command) + flag + "' " + helps
}

// RemoveLeftOut removes what earlier runs wrote of the files that had no room, and adds a warning for each.
func (c *Crawl) RemoveLeftOut(rep *Report) error {
	var errs []error
	for _, left := range c.Room.LeftOut() {
		rep.Warnings = append(rep.Warnings, c.leftOutText(left))
		path := filepath.Join(string(c.Dir), left.Name)
		if datadir.CheckFile(path) != nil {
			continue // a file of the user's
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leftOutText says why a file was not written, and how to get it.
func (c *Crawl) leftOutText(left datadir.LeftOut) string {
	why, help := "the disk is nearly full", "free some space, then '"+c.Dir.Command("resume")+"' writes all files again"
	switch {
	case !left.DiskFull:
		why = "the files of the crawl would take more disk than the plan of the account leaves"
		help = "delete crawls or get a plan with more disk, then crawl again"
	case c.Given != nil:
		why, help = "the disk of the server is nearly full", "crawl again later"
	}
	for setting, names := range map[string][]string{"links": {"links.jsonl", datadir.LinksParquetName},
		"csv": {"sitemap.csv"}, "parquet": {datadir.ParquetName, datadir.ProblemsParquetName}} {
		if slices.Contains(names, left.Name) {
			help += "; the setting " + setting + " asks for this file"
		}
	}
	return left.Name + " was not written, because " + why + ": " + help
}

// isHTTPSTry reports whether a failed page is the https URL that was tried for a bare domain, or for a name of a
// certificate, before plain http. Then the http URL shows what became of the name.
func (c *Crawl) isHTTPSTry(ctx context.Context, l *page.Line, bare map[string]bool) bool {
	url := l.URL.String()
	if l.StatusCode != 0 || l.URL.Scheme() != "https" || !bare[url] &&
		l.Source != page.SourceName(page.SourceCT) {
		return false
	}
	p, ok, err := c.Store.Page(ctx, c.Store.Hasher().Key(weburl.MustCanonical("http"+url[len("https"):])))
	return err == nil && ok && page.SourceName(p.Link.Source) == l.Source
}

// follow fills in what one pass over the pages cannot tell: where redirects end.
func (c *Crawl) follow(ctx context.Context, rep *Report) error {
	reader := &pageReader{store: c.Store, hasher: c.Store.Hasher()}
	for _, list := range []*List[Chain]{rep.Redirects, rep.Loops} {
		if list == nil {
			continue
		}
		size := 0
		for i := range list.Items {
			chain := &list.Items[i]
			hops, _, err := reader.walk(ctx, chain.URL, chain.Hops[0])
			if err != nil {
				return err
			}
			if size += sizeOf(chain.URL, chain.FoundOn) + sizeOf(hops...); size > maxListBytes {
				list.leave(i)
				break
			}
			chain.Hops = hops
		}
	}
	return nil
}

// maxReferrers is how many pages the report names for one broken link. Once it has named maxReferrerBytes of URLs, it
// names one page for each further link.
const (
	maxReferrers     = 100
	maxReferrerBytes = 8 << 20
)

// Write writes report.json.
func Write(dir datadir.Dir, rep *Report) error {
	text, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return datadir.WriteFile(dir.Report(), datadir.Public, page.AppendEscaped(nil, append(text, '\n')))
}

// Read reads report.json; the report is nil if there is none.
func Read(dir datadir.Dir) (*Report, error) {
	text, err := os.ReadFile(dir.Report())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rep := &Report{}
	if err := json.Unmarshal(text, rep); err != nil {
		return nil, fmt.Errorf("read %s: %w", dir.Report(), err)
	}
	return rep, nil
}

// Rewrite writes the outputs of a crawl again, except its report. The crawl must not be running. If its last run has
// not ended, or was a recrawl that failed, Rewrite replaces nothing. An output for which there is no room stays as it
// is.
func Rewrite(ctx context.Context, s *state.Store, dir datadir.Dir, room *datadir.Room) error {
	status := page.Status(s.Facts()[page.FactStatus])
	if status == page.Running || status == "" {
		return fmt.Errorf("the last run in %s has not ended", dir)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		return err
	}
	starts, err := plan.URLs()
	if err != nil {
		return err
	}
	loaded, err := config.Load(config.FromStored(plan.Settings))
	if err != nil {
		return err
	}
	c := Crawl{Store: s, Settings: loaded.Settings, Starts: starts, Dir: dir, Room: room}
	return c.Complete(ctx, &Report{Status: status})
}

// ExportOptions are an export's options by the settings of a crawl. The address of the files is the root of the first
// start's origin, unless the settings name another.
func ExportOptions(s *config.Settings, starts []datadir.Start, dir datadir.Dir) export.Options {
	base := s.BaseURL
	if base == "" && len(starts) > 0 {
		base = starts[0].URL.Origin() + "/"
	}
	return export.Options{Dir: string(dir), BaseURL: base, Name: s.SitemapName, Split: s.SitemapSplit,
		Gzip: s.Gzip, Hreflang: s.Hreflang, Images: s.Images, Videos: s.SitemapVideo, News: s.SitemapNews,
		CSV: s.CSV, Parquet: s.Parquet, Links: s.RecordsLinks(), Extract: s.ExtractNames(),
		Exclude: s.ExcludeFromSitemap, Frequencies: s.Changefreq, Priorities: s.Priority}
}
