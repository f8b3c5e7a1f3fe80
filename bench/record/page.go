package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const pageHead = `# Results

This page is made by ` + "`go run ./bench/record`" + ` from the raw outputs beside it; nothing on it is written by hand but the section about changes.
Every crawler is a process of its own, and so is the web that it crawls, on the same cores: figures change with the machine and the hour, and only
those of one run can be compared. In a run the crawlers take turns. benchstat makes the figures from all turns of all runs. [The package's documentation](../doc.go) says what the scenarios are. Ours is the
built program with its profile own-site and everything on, full durability and metrics among it; bare is a net/http loop that knows all URLs and reads nothing, naive
the crawler that one writes in a hundred lines, colly is gocolly/colly.

`

// page writes RESULTS.md. The newest recording stands in full, and the newest with the scenarios if that is another;
// older ones have a line each.
func page(all []recording, changes string) (string, error) {
	b := &strings.Builder{}
	b.WriteString(pageHead)
	if len(all) == 0 {
		b.WriteString("Nothing has been recorded yet.\n\n")
	}
	whole := newestWhole(all)
	for i, r := range all {
		if i > 0 && i != whole {
			continue
		}
		if err := r.write(b); err != nil {
			return "", err
		}
	}
	if changes = strings.TrimSpace(changes); changes != "" {
		b.WriteString("## Changes that were worth it\n\n" + changes + "\n\n")
	}
	if len(all) > 0 {
		b.WriteString("## All recordings\n\n")
	}
	for _, r := range all {
		fmt.Fprintf(b, "- [%s](%s), runs: %d\n", r.title(), filepath.Base(r.file), r.runs())
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// newestWhole is the number of the newest recording that has the scenarios, or -1.
func newestWhole(all []recording) int {
	return slices.IndexFunc(all, func(r recording) bool { return r.has(scenarioA + "ours") })
}

func (r recording) title() string {
	date, _, _ := strings.Cut(r.fact("date"), "T")
	return date + ", commit " + r.fact("commit")
}

func (r recording) write(b *strings.Builder) error {
	fmt.Fprintf(b, "## %s\n\n%s, %s cores, %s, %s/%s, %s. Raw output: [%s](%s).\n\n", r.title(), r.fact("cpu"),
		r.fact("cores"), r.fact("memory"), r.fact("goos"), r.fact("goarch"), r.fact("go"), filepath.Base(r.file),
		filepath.Base(r.file))
	if r.fact("smoke") != "" {
		b.WriteString("**This was a smoke run: every scenario was tiny, and the figures show only that everything " +
			"runs.**\n\n")
	} else {
		f, err := r.figures()
		if err != nil {
			return err
		}
		b.WriteString("| | bar | median |\n|---|---|---|\n")
		for _, bar := range bars() {
			v, ok := bar.value(f)
			verdict := bar.verdict(v)
			if r.failed(bar.name) || bar.over != "" && r.failed(bar.over) {
				ok, verdict = true, "**failed**"
			}
			if ok {
				fmt.Fprintf(b, "| %s | %s | %s |\n", bar.what, bar.text(), verdict)
			}
		}
		b.WriteString("\n")
	}
	for _, failure := range r.failures() {
		fmt.Fprintf(b, "- **failed** in %s\n", failure)
	}
	text, err := r.benchstat("text")
	fmt.Fprintf(b, "\n```\n%s```\n\n", text)
	return err
}
