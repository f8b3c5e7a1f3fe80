package documents

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The table of speeds in docs/which-crawler.md has the medians of the recorded run that it names, rounded.
func TestFiguresOfCrawlers(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	all, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	text := all["which-crawler.md"].Text
	_, section, _ := strings.Cut(text, "\n## Speed\n")
	run := regexp.MustCompile(`\]\(\.\./(bench/results/[^)]+\.txt)\)`).FindStringSubmatch(section)
	if run == nil {
		t.Fatal("the section about speed names no run")
	}
	medians := mediansOf(string(read(t, filepath.Join(root, run[1]))))
	var crawlers []string
	compared := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if crawlers == nil {
			crawlers = cells
			continue
		}
		scenario, unit := "a", "pages/s"
		if strings.HasPrefix(cells[0], "500 hosts") {
			scenario = "b"
		}
		if strings.Contains(cells[0], "processor time") {
			unit = "cpu-µs/page"
		}
		for i := 1; i < len(cells); i++ {
			compared++
			median := medians[scenario+" "+crawlers[i]+" "+unit]
			shown, err := strconv.ParseFloat(strings.ReplaceAll(cells[i], ",", ""), 64)
			if err != nil || median == 0 || math.Abs(shown-median) > 0.03*median {
				t.Errorf("%s, %s: the document has %q, the run %.1f", cells[0], crawlers[i], cells[i], median)
			}
		}
	}
	if compared < 8 {
		t.Errorf("only %d figures: the search is broken", compared)
	}
}

// mediansOf are the medians of the figures in an output of benchmarks, by scenario, crawler and unit.
func mediansOf(output string) map[string]float64 {
	values := map[string][]float64{}
	benchmark := regexp.MustCompile(`^BenchmarkCrawl/scenario=([a-z])_\w+/crawler=(\w+)/`)
	figure := regexp.MustCompile(`([0-9.e+]+) ([^\s]+)`)
	for line := range strings.Lines(output) {
		name := benchmark.FindStringSubmatch(line)
		if name == nil {
			continue
		}
		for _, f := range figure.FindAllStringSubmatch(line, -1) {
			if v, err := strconv.ParseFloat(f[1], 64); err == nil {
				key := name[1] + " " + name[2] + " " + f[2]
				values[key] = append(values[key], v)
			}
		}
	}
	medians := map[string]float64{}
	for key, all := range values {
		slices.Sort(all)
		medians[key] = (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	return medians
}
