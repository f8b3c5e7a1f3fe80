package main

import (
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/crawl"
)

// printReport writes the closing table.
func printReport(io stdio, dir crawl.Dir, rep *crawl.Report) error {
	out := &strings.Builder{}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }

	row("Status", "%s (%s)", rep.Status, rep.Reason)
	row("URLs", "%s, %s indexable", humanize.Comma(rep.URLs), humanize.Comma(rep.Indexable))
	row("Outcomes", "%s", counts(rep.Outcomes))
	row("Answers", "%s", counts(rep.StatusClasses))
	row("Received", "%s", humanize.IBytes(uint64(rep.Bytes)))
	row("This run", "%s pages in %s (%.1f pages/s), export %s", humanize.Comma(rep.Pages), seconds(rep.CrawlSeconds), rep.PagesPerSec, seconds(rep.ExportSeconds))
	if len(rep.SkippedLinks) > 0 {
		row("Not followed", "%s", counts(rep.SkippedLinks))
	}
	if b := rep.BrokenLinks; b != nil {
		row("Broken links", "%s", humanize.Comma(b.Total))
	}
	if l := rep.Loops; l != nil {
		row("Redirect loops", "%s", humanize.Comma(l.Total))
	}
	for _, h := range rep.BlockedHosts {
		row("Blocked host", "%s: %s, %s URLs wait", h.Host, h.Why, humanize.Comma(h.Waiting))
	}
	for _, h := range rep.ThrottledHosts {
		row("Throttled host", "%s: %s URLs", h.Host, humanize.Comma(h.Throttled))
	}
	for _, e := range rep.Errors {
		row("Error", "%s", e)
	}
	for _, text := range rep.Warnings {
		row("Warning", "%s", text)
	}
	row("Files", "%s in %s", strings.Join(rep.Files, ", "), dir)
	if rep.Status == crawl.Partial || rep.Status == crawl.Cancelled {
		row("Go on with", "mapwright resume --data-dir %s", dir)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond).String()
}

// counts writes a map of counts, the largest first.
func counts(m map[string]int64) string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, n := range names {
		names[i] = n + " " + humanize.Comma(m[n])
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
