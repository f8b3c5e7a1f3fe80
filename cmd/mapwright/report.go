package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// shownItems is how many items of a list the closing table shows; report.json has more.
const shownItems = 5

// table writes rows with aligned columns. Flush prints them.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer) table { return table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// some writes a row unless its text is empty.
func (t table) some(name, text string) {
	if text != "" {
		t.row(name, "%s", text)
	}
}

// each writes a row for each text.
func (t table) each(name string, texts []string) {
	for _, text := range texts {
		t.row(name, "%s", text)
	}
}

// figures writes how far a crawl is.
func (t table) figures(found, done, pending int64) {
	t.row("Found", "%s", humanize.Comma(found))
	t.row("Done", "%s", humanize.Comma(done))
	t.row("Pending", "%s", humanize.Comma(pending))
}

// limits writes how much of the limits of a crawl is used.
func (t table) limits(list []monitor.LimitUse) {
	for _, u := range list {
		t.row("Limit", "%s: %.0f of %.0f", u.Name, u.Used, u.Limit)
	}
}

// list writes the first items under one name, and how many more there are.
func list[T any](t table, name string, items []T, total int64, text func(T) string) {
	for _, item := range items[:min(len(items), shownItems)] {
		t.row(name, "%s", text(item))
		name = ""
	}
	if more := total - shownItems; more > 0 {
		t.row("", "and %s more in report.json", humanize.Comma(more))
	}
}

// printReport writes the closing table.
func printReport(io stdio, dir datadir.Dir, resume string, rep *report.Report) error {
	out := &strings.Builder{}
	t := newTable(out)
	t.row("Status", "%s (%s)", rep.Status, rep.Reason)
	t.row("URLs", "%s, %s indexable", humanize.Comma(rep.URLs), humanize.Comma(rep.Indexable))
	t.row("Outcomes", "%s", counts(rep.Outcomes))
	t.row("Answers", "%s", counts(rep.StatusClasses))
	if rep.Generation > 0 {
		t.row("Changes", "%s (generation %d)", counts(rep.Changes), rep.Generation)
	}
	t.row("Received", "%s", humanize.IBytes(uint64(rep.Bytes)))
	t.row("This run", "%s in %s%s, export %s", words.Count(rep.Pages, "page"), seconds(rep.CrawlSeconds), rate(rep),
		seconds(rep.ExportSeconds))
	if rep.Runs > 1 {
		t.row("All runs", "%s in %s, since %s", words.Count(int64(rep.Runs), "run"), seconds(rep.Elapsed),
			rep.StartedAt.UTC().Format(time.DateTime+" MST"))
	}
	if c := rep.Cluster; c != nil {
		t.row("Machines", "%s", machinesText(c))
	}
	if len(rep.SkippedLinks) > 0 {
		t.row("Not followed", "%s", counts(rep.SkippedLinks))
	}
	printFindings(t, rep)
	printHosts(t, rep)
	same := func(text string) string { return text }
	list(t, "Errors", rep.Errors, int64(len(rep.Errors)), same)
	list(t, "Warnings", rep.Warnings, int64(len(rep.Warnings)), same)
	t.row("Files", "%s in %s", fileNames(rep.Files, rep.Sitemaps), dir)
	t.some("Go on with", resumeHint(resume, rep.Status, rep.Reason, rep.Profile, len(rep.BlockedHosts) > 0))
	if rep.Status == page.Failed && rep.Generation == 0 && rep.Cluster == nil && len(rep.BlockedHosts) == 0 &&
		rep.Outcomes[page.Pending.String()] == 0 {
		t.row("Try again", "%s, then the same command: nothing is left that resume would fetch", dir.Command("wipe"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}

// machinesText says how many machines worked on a crawl, and what became of them.
func machinesText(c *report.Cluster) string {
	text, lost := humanize.Comma(int64(len(c.Machines))), 0
	for i := range c.Machines {
		if c.Machines[i].Lost {
			lost++
		}
	}
	if lost > 0 {
		text += fmt.Sprintf(", %d of them lost", lost)
	}
	if c.Takeovers > 0 {
		text += fmt.Sprintf(", %s taken over", words.Count(int64(c.Takeovers), "partition"))
	}
	if c.Fenced > 0 {
		text += fmt.Sprintf(", %s fenced", words.Count(int64(c.Fenced), "session"))
	}
	return text
}

// printFindings writes what an owner of the pages may want to correct.
func printFindings(t table, rep *report.Report) {
	if b := rep.BrokenLinks; b != nil {
		list(t, "Broken links", b.Items, b.Total, func(b report.Broken) string {
			what := b.Outcome
			if b.StatusCode != 0 {
				what = fmt.Sprint(b.StatusCode)
			}
			if b.FoundOn == "" {
				return fmt.Sprintf("%s %s", what, b.URL)
			}
			return fmt.Sprintf("%s %s, linked from %s", what, b.URL, b.FoundOn)
		})
	}
	printOutside(t, rep.Problems)
	if l := rep.Loops; l != nil {
		list(t, "Redirect loops", l.Items, l.Total, func(c report.Chain) string { return c.URL })
	}
	printProblems(t, rep.Problems)
}

// printOutside writes the broken links that leave the crawl.
func printOutside(t table, all []problems.Problem) {
	for i := range all {
		p := &all[i]
		if p.Code != problems.BrokenExternal.String() || p.Count == 0 {
			continue
		}
		list(t, "Broken external", p.Items, p.Count, func(item problems.Item) string {
			return fmt.Sprintf("%s %s, linked from %s", item.Value, item.URL, item.Related[0])
		})
	}
}

// printProblems writes how many problems the site has, and which are the worst.
func printProblems(t table, all []problems.Problem) {
	if len(all) == 0 {
		return // the report of an earlier version
	}
	totals, worst := problems.TotalsOf(all), problems.Worst(all)
	isChecked := func(p problems.Problem) bool { return p.Result != problems.NotChecked }
	switch {
	case len(worst) > 0:
	case !slices.ContainsFunc(all, isChecked):
		t.row("Problems", "not looked for: %s", all[0].Why)
		return
	default:
		t.row("Problems", "none found")
		return
	}
	t.row("Problems", "%s, %s, %s", words.Count(totals.Errors, "error"), words.Count(totals.Warnings, "warning"),
		words.Count(totals.Notices, "notice"))
	list(t, "", worst, int64(len(worst)), func(p problems.Problem) string {
		return fmt.Sprintf("%s: %s", p.Code,
			words.Count(p.Count, "URL"))
	})
}

// printHosts writes the slowest, the blocked and the throttled hosts.
func printHosts(t table, rep *report.Report) {
	if hosts := rep.SlowestHosts; len(hosts) > 1 {
		list(t, "Slowest hosts", hosts, int64(min(len(hosts), shownItems)), func(h report.HostFigure) string {
			if h.MeanResponseMS == 0 {
				return h.Host + ": under 1 ms on average"
			}
			return fmt.Sprintf("%s: %s ms on average", h.Host, humanize.Comma(h.MeanResponseMS))
		})
	}
	list(t, "Blocked hosts", rep.BlockedHosts, int64(len(rep.BlockedHosts)), func(h report.HostFigure) string {
		return fmt.Sprintf("%s: %s; %s", h.Host, h.Why, words.Count(h.Waiting, "URL")+" not fetched")
	})
	list(t, "Throttled hosts", rep.ThrottledHosts, int64(len(rep.ThrottledHosts)), func(h report.HostFigure) string {
		return fmt.Sprintf("%s: %s", h.Host, words.Count(h.Throttled, "URL"))
	})
}

// resumeHint is the command that continues a crawl which ended with this status and reason, or what else to do; empty
// if there is nothing left to do. Blocked says whether hosts are blocked.
func resumeHint(resume string, status page.Status, reason, profile string, blocked bool) string {
	bounds := "(in all; 0 is no limit)"
	if profile == string(config.Safe) {
		bounds = fmt.Sprintf("(in all; at most %d in a safe crawl)", config.SafePages)
	}
	switch {
	case status != page.Partial && status != page.Cancelled:
		if blocked {
			return resume + " (tries the blocked hosts again)"
		}
		return ""
	case strings.HasPrefix(reason, "Safety limit: Maximum"):
		return "another profile, in another data directory: a safe crawl has its pages once"
	case strings.HasPrefix(reason, "Reached max_urls_per_host "):
		return resume + " --max-urls-per-host N " + bounds
	case strings.HasPrefix(reason, "Reached max_urls "):
		return resume + " --max-urls N " + bounds
	}
	return resume
}

// seconds writes how long something took, rounded to about a hundredth of its value, and never as 0s.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	for _, unit := range []time.Duration{time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond} {
		if d >= unit {
			return d.Round(unit / 100).Truncate(time.Microsecond).String()
		}
	}
	return max(time.Millisecond, d.Round(time.Millisecond)).String()
}

// rate writes pages per second, for a run that was long enough to have a rate.
func rate(rep *report.Report) string {
	switch {
	case rep.Pages == 0 || rep.CrawlSeconds < 0.1:
		return ""
	case rep.PagesPerSec >= 100:
		return fmt.Sprintf(" (%s pages/s)", humanize.Comma(int64(math.Round(rep.PagesPerSec))))
	}
	return fmt.Sprintf(" (%.1f pages/s)", rep.PagesPerSec)
}

// fileNames lists files by name; the parts of a sitemap are counted instead.
func fileNames(files []string, of export.Sitemaps) string {
	var names []string
	// The index over all sitemaps has the shortest name.
	top := ""
	for _, name := range files {
		if datadir.IsSitemap(name) && (top == "" || len(name) < len(top)) {
			top = name
		}
	}
	index, parts, archives := -1, 0, 0
	for _, name := range files {
		switch {
		case strings.HasPrefix(name, "warc/"):
			archives++
		case !datadir.IsSitemap(name):
			names = append(names, name)
		case name == top:
			index = len(names)
			names = append(names, name)
		default:
			parts++
		}
	}
	switch {
	case index >= 0 && of.Hosts > 0:
		names[index] += fmt.Sprintf(" (%s of %s)", words.Count(of.Parts, "part"), words.Count(of.Hosts, "host"))
	case index >= 0 && of.Sections > 0:
		names[index] += fmt.Sprintf(" (%s of %s)", words.Count(of.Parts, "part"), words.Count(of.Sections, "directory",
			"directories"))
	case index >= 0 && parts > 0:
		names[index] += fmt.Sprintf(" (%s)", words.Count(int64(parts), "part"))
	}
	if archives > 0 {
		names = append(names, fmt.Sprintf("warc (%s)", words.Count(int64(archives), "file")))
	}
	return strings.Join(names, ", ")
}

// counts writes a map of counts, the largest first.
func counts(m map[string]int64) string {
	return cmp.Or(words.Counts(m, words.ByCount(m)), "none")
}
