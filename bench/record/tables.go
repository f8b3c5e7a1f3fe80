package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// column is a unit and how a table calls it.
type column struct{ head, unit string }

func crawlColumns() []column {
	return []column{
		{"pages/s", perSecond}, {"CPU µs/page", "cpu-µs/page"}, {"web's CPU µs/page", "server-µs/page"},
		{"anon MB", "anon-MB"}, {"without hot set", "anon-less-hot-MB"}, {"conns/host", "conns/host"},
		{"export s", "export-s"},
	}
}

// writeScenarios is a table of crawlers for each scenario: medians, with the least and the most where they differ.
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

// middle is the median as text.
func middle(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	return number(median(values))
}
