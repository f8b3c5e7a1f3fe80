package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A recording is one raw file.
type recording struct {
	file string // with its folder
	text string
}

// readAll reads the raw files of a folder, the newest recording first.
func readAll(dir string) ([]recording, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []recording
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, recording{name, string(text)})
	}
	slices.SortFunc(all, func(a, b recording) int {
		return cmp.Or(cmp.Compare(b.fact("date"), a.fact("date")), cmp.Compare(b.file, a.file))
	})
	return all, nil
}

// fact is "commit", "cpu" and the like, as it first stands in the file.
func (r recording) fact(key string) string {
	_, rest, _ := strings.Cut("\n"+r.text, "\n"+key+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// has reports whether the recording has a benchmark whose name begins so.
func (r recording) has(name string) bool { return strings.Contains(r.text, "\nBenchmark"+name) }

// runs is how many runs the recording has.
func (r recording) runs() int { return strings.Count("\n"+r.text, "\nrun: ") }

// failures are the benchmarks that failed, and the runs in which they did.
func (r recording) failures() []string {
	var all []string
	run := ""
	for line := range strings.Lines(r.text) {
		line = strings.TrimSpace(line)
		if number, ok := strings.CutPrefix(line, "run: "); ok {
			run = number
		}
		if rest, ok := strings.CutPrefix(line, "--- FAIL: Benchmark"); ok {
			all = append(all, fmt.Sprintf("run %s: %s", run, strings.Fields(rest)[0]))
		}
	}
	return all
}

// failed reports whether a benchmark failed in any turn of any run. Its figures then hold no bar.
func (r recording) failed(name string) bool {
	return slices.ContainsFunc(r.failures(), func(f string) bool {
		f, _, _ = strings.Cut(f, "/turn=")
		return strings.HasSuffix(f, ": "+name)
	})
}

// benchstat runs benchstat over the recording. Turns and runs are samples of one figure.
func (r recording) benchstat(format string) (string, error) {
	cmd := exec.Command("go", "tool", "benchstat", "-format", format, "-table", "pkg", "-ignore",
		"run,date,commit,/turn",
		filepath.Base(r.file))
	cmd.Dir = filepath.Dir(r.file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("benchstat of %s: %w: %s", r.file, err, errs.String())
	}
	return out.String(), nil
}

// figures are medians by benchmark and unit, as benchstat has them.
type figures map[[2]string]float64

// figures asks benchstat for the medians.
func (r recording) figures() (figures, error) {
	text, err := r.benchstat("csv")
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(strings.NewReader(text))
	rows.FieldsPerRecord = -1
	all := figures{}
	for unit := ""; ; {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(row) < 3 {
			continue
		}
		if row[0] == "" { // the head of a table
			unit = row[1]
			continue
		}
		name := row[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // the number of CPUs
		}
		if v, err := strconv.ParseFloat(row[1], 64); err == nil {
			all[[2]string{name, unit}] = v
		}
	}
}

// get is a figure in its own unit: benchstat counts bytes where the benchmark counts megabytes.
func (f figures) get(name, unit string) (float64, bool) {
	if v, ok := f[[2]string{name, unit}]; ok {
		return v, true
	}
	v, ok := f[[2]string{name, strings.Replace(unit, "MB", "B", 1)}]
	return v / 1e6, ok
}
