package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A recording is one raw file.
type recording struct {
	file  string            // without its folder
	facts map[string]string // "commit", "cpu" and the like, as they first stand in the file
	runs  []*benchRun
}

// A benchRun is one run: the figures of each benchmark by unit, one for each of its turns.
type benchRun struct {
	number  int
	figures map[string]map[string][]float64 // by name, without "Benchmark", the turn and the number of CPUs
	names   []string                        // in order
	failed  []string                        // benchmarks that failed
	broken  bool                            // go test said that something failed
}

// readAll reads the raw files of a folder, the newest recording first.
func readAll(dir string) ([]*recording, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []*recording
	for _, name := range names {
		r, err := readRecording(name)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *recording) int {
		return cmp.Or(cmp.Compare(b.facts["date"], a.facts["date"]), cmp.Compare(b.file, a.file))
	})
	return all, nil
}

func readRecording(name string) (*recording, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &recording{file: filepath.Base(name), facts: map[string]string{}}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if err := r.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", r.file, n, err)
		}
	}
	return r, lines.Err()
}

// line takes one line. What is neither a fact nor a figure nor a failure is talk.
func (r *recording) line(text string) error {
	switch {
	case strings.HasPrefix(text, "Benchmark"):
		return r.figure(strings.Fields(text))
	case strings.HasPrefix(strings.TrimSpace(text), "--- FAIL: Benchmark"):
		if run := r.last(); run != nil {
			if name := benchmarkName(strings.Fields(text)[2]); !slices.Contains(run.failed, name) {
				run.failed = append(run.failed, name)
			}
		}
		return nil
	case strings.HasPrefix(text, "FAIL"):
		if run := r.last(); run != nil {
			run.broken = true
		}
		return nil
	}
	key, value, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(key, " \t") {
		return nil
	}
	if key == "run" {
		number, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		r.runs = append(r.runs, &benchRun{number: number, figures: map[string]map[string][]float64{}})
		return nil
	}
	if _, known := r.facts[key]; !known {
		r.facts[key] = value
	}
	return nil
}

func (r *recording) last() *benchRun {
	if len(r.runs) == 0 {
		return nil
	}
	return r.runs[len(r.runs)-1]
}

// figure takes a line of results: a name, an iteration count, then values and their units.
func (r *recording) figure(fields []string) error {
	run := r.last()
	if run == nil || len(fields) < 4 || len(fields)%2 != 0 {
		return nil
	}
	name := benchmarkName(fields[0])
	values := run.figures[name]
	if values == nil {
		values = map[string][]float64{}
		run.figures[name] = values
		run.names = append(run.names, name)
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		values[fields[i+1]] = append(values[fields[i+1]], v)
	}
	return nil
}

// benchmarkName is what stands in a line of results without "Benchmark", the turn and the number of CPUs.
func benchmarkName(text string) string {
	name := strings.TrimPrefix(text, "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	name, _, _ = strings.Cut(name, "/turn=")
	return name
}

// get is one figure, if it was taken: the median of its turns.
func (r *benchRun) get(name, unit string) (float64, bool) {
	all := r.figures[name][unit]
	return median(all), len(all) > 0
}

// gather is one figure of all turns of all runs.
func (r *recording) gather(name, unit string) []float64 {
	var all []float64
	for _, run := range r.runs {
		all = append(all, run.figures[name][unit]...)
	}
	return all
}

// names are all benchmarks of a recording, in the order of their first run.
func (r *recording) names() []string {
	var all []string
	for _, run := range r.runs {
		for _, name := range run.names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}
