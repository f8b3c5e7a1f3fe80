package main

import (
	"fmt"
	"slices"
	"strings"
)

const pageHead = `# Results

This page is made by ` + "`go run ./bench/record`" + ` from the raw outputs beside it; nothing on it is written by hand but the section about changes.
Every crawler is a process of its own, and so is the web that it crawls, on the same cores: figures change with the machine and the hour, and only
those of one run can be compared. In a run the crawlers take turns, and a figure is the median of its turns; ranges are over all turns of all runs. [The package's documentation](../doc.go) says what the scenarios are. Ours is the
built program with its profile own-site and everything on, full durability and metrics among it; bare is a net/http loop that knows all URLs and reads nothing, naive
the crawler that one writes in a hundred lines, colly is gocolly/colly.

`

// page writes RESULTS.md. The newest recording stands in full, and the newest with the scenarios if that is another;
// older ones have a line each.
func page(all []*recording, changes string) string {
	b := &strings.Builder{}
	b.WriteString(pageHead)
	if len(all) == 0 {
		b.WriteString("Nothing has been recorded yet.\n\n")
	} else {
		writeRecording(b, all[0], plotted(all) == all[0])
		shown := all[0]
		if whole := newestWhole(all); whole != nil && whole != all[0] {
			writeRecording(b, whole, plotted(all) == whole)
			shown = whole
		}
		if old := plotted(all); old != nil && old != all[0] && old != shown {
			fmt.Fprintf(b, "## Growth, as of %s\n\n", title(old))
			writeGrowth(b, old)
		}
	}
	if changes = strings.TrimSpace(changes); changes != "" {
		b.WriteString("## Changes that were worth it\n\n" + changes + "\n\n")
	}
	if len(all) > 1 {
		writeHistory(b, all)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// newestWhole is the newest recording that has the scenarios, or nil.
func newestWhole(all []*recording) *recording {
	for _, r := range all {
		if slices.Contains(r.names(), scenarioA+"ours") {
			return r
		}
	}
	return nil
}

func title(r *recording) string {
	date, _, _ := strings.Cut(r.facts["date"], "T")
	return date + ", commit " + r.facts["commit"]
}

func writeRecording(b *strings.Builder, r *recording, withGrowth bool) {
	fmt.Fprintf(b, "## %s\n\n", title(r))
	machine := fmt.Sprintf("%s, %s cores", r.facts["cpu"], r.facts["cores"])
	if m := r.facts["memory"]; m != "" {
		machine += ", " + m
	}
	fmt.Fprintf(b, "%s, %s/%s, %s. Raw output: [%s](%s).\n\n", machine, r.facts["goos"], r.facts["goarch"],
		r.facts["go"], r.file, r.file)
	if r.facts["smoke"] != "" {
		b.WriteString("**This was a smoke run: every scenario was tiny, and the figures show only that everything " +
			"runs.**\n\n")
	} else {
		writeBars(b, r)
	}
	writeFailures(b, r)
	writeScenarios(b, r)
	if withGrowth {
		b.WriteString("### Growth\n\n")
		writeGrowth(b, r)
	}
	writeOthers(b, r)
}

// writeBars shows each run against each bar that it has a figure for.
func writeBars(b *strings.Builder, r *recording) {
	b.WriteString("### What was promised\n\n| | bar |")
	rule := "|---|---|"
	for _, run := range r.runs {
		fmt.Fprintf(b, " run %d |", run.number)
		rule += "---|"
	}
	b.WriteString(" held |\n" + rule + "---|\n")
	for _, bar := range bars() {
		held, of := bar.tally(r.runs)
		if of == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", bar.what, bar.text())
		for _, run := range r.runs {
			fmt.Fprintf(b, " %s |", bar.verdict(run))
		}
		fmt.Fprintf(b, " %d of %d |\n", held, of)
	}
	b.WriteString("\n")
}

// writeFailures names what failed.
func writeFailures(b *strings.Builder, r *recording) {
	for _, run := range r.runs {
		// A benchmark fails with its parts.
		parts := slices.DeleteFunc(slices.Clone(run.failed), func(name string) bool {
			return slices.ContainsFunc(run.failed, func(other string) bool {
				return strings.HasPrefix(other,
					name+"/")
			})
		})
		switch {
		case len(parts) > 0:
			fmt.Fprintf(b, "Run %d failed: %s. The raw output says why.\n\n", run.number, strings.Join(parts, ", "))
		case run.broken:
			fmt.Fprintf(b, "Run %d failed before its end. The raw output says why.\n\n", run.number)
		}
	}
}

// writeHistory shows what older recordings amounted to: figures of different days cannot be compared, ratios nearly.
func writeHistory(b *strings.Builder, all []*recording) {
	b.WriteString("## All recordings\n\n| recording | runs | bars held in every run | (a) pages/s | × naive | × bare " +
		"| CPU µs/page | (b) × naive | × bare | (c) × bare | (d) × naive " +
		"|\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	columns := []bar{
		{name: scenarioA + "ours", unit: perSecond},
		{name: scenarioA + "ours", unit: perSecond, over: scenarioA + "naive"},
		{name: scenarioA + "ours", unit: perSecond, over: scenarioA + "bare"},
		{name: scenarioA + "ours", unit: "cpu-µs/page"},
		{name: scenarioB + "ours", unit: perSecond, over: scenarioB + "naive"},
		{name: scenarioB + "ours", unit: perSecond, over: scenarioB + "bare"},
		{name: scenarioC + "ours", unit: perSecond, over: scenarioC + "bare"},
		{name: scenarioD + "ours", unit: perSecond, over: scenarioD + "naive"},
	}
	for _, r := range all {
		held, of := 0, 0
		for _, bar := range bars() {
			if h, n := bar.tally(r.runs); n > 0 && !bar.aim {
				of++
				if h == n {
					held++
				}
			}
		}
		fmt.Fprintf(b, "| [%s](%s) | %d | %d of %d |", title(r), r.file, len(r.runs), held, of)
		for _, c := range columns {
			var values []float64
			for _, run := range r.runs {
				if v, ok := c.value(run); ok {
					values = append(values, v)
				}
			}
			fmt.Fprintf(b, " %s |", middle(values))
		}
		b.WriteString("\n")
	}
}
