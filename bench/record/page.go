package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

const pageHead = `# Results

This page is made by ` + "`go run ./bench/record`" + ` from the raw outputs beside it; nothing on it is written by hand but the section about changes.
Every crawler is a process of its own, and so is the web that it crawls, on the same cores: figures wander with the machine and the hour, and only
those of one run can be compared. [The package's documentation](../doc.go) says what the scenarios are. Ours is the
built program with its profile own-site and everything on, full durability and metrics among it; bare is a net/http loop that knows all URLs and reads nothing, naive
the crawler that one writes in a hundred lines, colly is gocolly/colly.

`

// page writes RESULTS.md. The newest recording stands in full, older ones in a line each.
func page(all []*recording, changes string) string {
	b := &strings.Builder{}
	b.WriteString(pageHead)
	if len(all) == 0 {
		b.WriteString("Nothing has been recorded yet.\n")
	} else {
		writeRecording(b, all[0], plotted(all) == all[0])
		if old := plotted(all); old != nil && old != all[0] {
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
	fmt.Fprintf(b, "%s, %s/%s, %s. Raw output: [%s](%s).\n\n", machine, r.facts["goos"], r.facts["goarch"], r.facts["go"], r.file, r.file)
	if r.facts["smoke"] != "" {
		b.WriteString("**This was a smoke run: every scenario was tiny, and the figures show only that everything runs.**\n\n")
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

// writeFailures names what has no figure because it failed.
func writeFailures(b *strings.Builder, r *recording) {
	for _, run := range r.runs {
		// A benchmark fails with its parts.
		parts := slices.DeleteFunc(slices.Clone(run.failed), func(name string) bool {
			return slices.ContainsFunc(run.failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
		})
		switch {
		case len(parts) > 0:
			fmt.Fprintf(b, "Run %d failed: %s. The raw output says why.\n\n", run.number, strings.Join(parts, ", "))
		case run.broken:
			fmt.Fprintf(b, "Run %d failed before its end. The raw output says why.\n\n", run.number)
		}
	}
}

// column is a unit and how a table calls it.
type column struct{ head, unit string }

func crawlColumns() []column {
	return []column{
		{"pages/s", perSecond}, {"CPU µs/page", "cpu-µs/page"}, {"web's CPU µs/page", "server-µs/page"},
		{"anon MB", "anon-MB"}, {"without hot set", "anon-less-hot-MB"}, {"conns/host", "conns/host"}, {"export s", "export-s"},
	}
}

// writeScenarios is a table of crawlers for each scenario: medians, with the least and the most of the runs where they differ.
func writeScenarios(b *strings.Builder, r *recording) {
	done := map[string]bool{}
	for _, name := range r.names() {
		scenario, _, ok := strings.Cut(name, "/crawler=")
		if !ok || done[scenario] {
			continue
		}
		done[scenario] = true
		var rows [][2]string // what the row is called, and the benchmark
		for _, other := range r.names() {
			if crawler, same := strings.CutPrefix(other, scenario+"/crawler="); same {
				rows = append(rows, [2]string{crawler, other})
			}
		}
		_, short, _ := strings.Cut(scenario, "scenario=")
		letter, rest, _ := strings.Cut(short, "_")
		fmt.Fprintf(b, "### (%s) %s\n\n", letter, strings.ReplaceAll(rest, "_", " "))
		writeTable(b, r, "crawler", rows, crawlColumns())
	}
}

func writeGrowth(b *strings.Builder, r *recording) {
	var rows [][2]string
	for _, name := range r.names() {
		if size, ok := strings.CutPrefix(name, growth); ok {
			n, _ := strconv.ParseInt(size, 10, 64)
			rows = append(rows, [2]string{humanize.Comma(n), name})
		}
	}
	b.WriteString("![pages a second and memory over the number of URLs](growth.svg)\n\n")
	writeTable(b, r, "URLs", rows, crawlColumns())
}

// writeOthers is for benchmarks that are not whole crawls, in whatever units they have.
func writeOthers(b *strings.Builder, r *recording) {
	groups := map[string][][2]string{}
	var order []string
	for _, name := range r.names() {
		group, rest, _ := strings.Cut(name, "/")
		if group == "Crawl" || group == "Growth" {
			continue
		}
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], [2]string{strings.ReplaceAll(rest, "/", ", "), name})
	}
	for _, group := range order {
		var columns []column
		for _, row := range groups[group] {
			for _, unit := range unitsOf(r, row[1]) {
				if !slices.Contains(columns, column{unit, unit}) {
					columns = append(columns, column{unit, unit})
				}
			}
		}
		fmt.Fprintf(b, "### %s\n\n", group)
		writeTable(b, r, "", groups[group], columns)
	}
}

func unitsOf(r *recording, name string) []string {
	var units []string
	for _, run := range r.runs {
		for unit := range run.figures[name] {
			if !slices.Contains(units, unit) && unit != "ns/op" {
				units = append(units, unit)
			}
		}
	}
	slices.Sort(units)
	return units
}

func writeTable(b *strings.Builder, r *recording, corner string, rows [][2]string, columns []column) {
	fmt.Fprintf(b, "| %s |", corner)
	rule := "|---|"
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.head)
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |", row[0])
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", spread(r.gather(row[1], c.unit)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// spread is the median, and the range when there is one.
func spread(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	low, high := number(slices.Min(values)), number(slices.Max(values))
	if low == high {
		return low
	}
	return fmt.Sprintf("%s (%s–%s)", middle(values), low, high)
}

// number writes three figures, or all of them before the point.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// writeHistory shows what older recordings amounted to: figures of different days cannot be compared, ratios nearly.
func writeHistory(b *strings.Builder, all []*recording) {
	b.WriteString("## All recordings\n\n| recording | runs | bars held in every run | (a) pages/s | × naive | × bare | CPU µs/page | (b) × naive | × bare | (c) × bare | (d) × naive |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
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

// middle is the median as text.
func middle(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return number(median(values))
}
