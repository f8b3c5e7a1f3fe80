package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestPage(t *testing.T) {
	all, err := readAll("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := os.ReadFile("testdata/results/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "RESULTS.md", page(all, string(changes)))
	golden(t, "growth.svg", plotGrowth(all))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; -update writes it anew. It is now\n%s", name, got)
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	all, err := readAll("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(strings.NewReader(plotGrowth(all)))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingRecorded(t *testing.T) {
	dir := t.TempDir()
	if err := writePage(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil || !strings.Contains(string(text), "Nothing has been recorded") {
		t.Errorf("page %q, error %v", text, err)
	}
	if err := printLast(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("last of nothing: %v", err)
	}
}

func TestRecordingIsRead(t *testing.T) {
	all, err := readAll("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].facts["commit"] != "0123456789" {
		t.Fatalf("%d recordings, the newest of %s", len(all), all[0].facts["commit"])
	}
	r := all[0]
	if len(r.runs) != 4 || r.facts["cpu"] != "Example CPU @ 2.00GHz" {
		t.Errorf("%d runs on %q", len(r.runs), r.facts["cpu"])
	}
	if got := r.gather(scenarioD+"ours", perSecond); len(got) != 2 {
		t.Errorf("figures of a benchmark that failed in one run of three: %v", got)
	}
	if got := len(r.runs[1].failed); got != 3 {
		t.Errorf("%d failures, want the benchmark and its parents", got)
	}
}

// A recording without the scenarios does not hide the newest that has them.
func TestRecordingOfAPart(t *testing.T) {
	all, err := readAll("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	part := &recording{file: "part.txt", facts: map[string]string{"date": "2030-01-01T00:00:00Z",
		"commit": "fedcba9876"}}
	for _, line := range []string{"run: 1", "BenchmarkRecrawl/pages=1000000/crawl=first-2 1 100 pages/s",
		"BenchmarkRecrawl/pages=1000000/crawl=again-2 1 90 pages/s"} {
		if err := part.line(line); err != nil {
			t.Fatal(err)
		}
	}
	text := page(append([]*recording{part}, all...), "")
	for _, want := range []string{"## 2030-01-01, commit fedcba9876", "| **0.90 MISS** |", "### Recrawl",
		"commit 0123456789\n\nExample CPU", "### (a) one host"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := newestWhole(append([]*recording{part}, all...)); got != all[0] {
		t.Errorf("the newest with the scenarios is %s", got.file)
	}
}

func TestTurns(t *testing.T) {
	r := &recording{facts: map[string]string{}}
	for _, line := range []string{
		"run: 1",
		"BenchmarkCrawl/scenario=s/crawler=ours/turn=1-2 1 10 pages/s",
		"BenchmarkCrawl/scenario=s/crawler=ours/turn=2-2 1 40 pages/s",
		"BenchmarkCrawl/scenario=s/crawler=ours/turn=3-2 1 20 pages/s",
		"--- FAIL: BenchmarkCrawl/scenario=s/crawler=naive/turn=1",
		"--- FAIL: BenchmarkCrawl/scenario=s/crawler=naive/turn=2",
	} {
		if err := r.line(line); err != nil {
			t.Fatal(err)
		}
	}
	const ours = "Crawl/scenario=s/crawler=ours"
	if v, ok := r.runs[0].get(ours, perSecond); v != 20 || !ok {
		t.Errorf("the run's figure is %v, want the median of its turns", v)
	}
	if got := spread(r.gather(ours, perSecond)); got != "20 (10–40)" {
		t.Errorf("spread over the turns: %s", got)
	}
	if got := strings.Join(r.runs[0].failed, " "); got != "Crawl/scenario=s/crawler=naive" {
		t.Errorf("failed: %s", got)
	}
}

func TestBadRecordingsAreNamed(t *testing.T) {
	for name, text := range map[string]string{
		"run":    "run: many\n",
		"figure": "run: 1\nBenchmarkX-2 1 twelve pages/s\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x.txt"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(dir); err == nil || !strings.Contains(err.Error(), "x.txt line") {
				t.Errorf("error %v does not say where", err)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	run := &benchRun{figures: map[string]map[string][]float64{
		"X": {"pages/s": {20, 30, 90}, "MB": {150}}, "Y": {"pages/s": {10}}, "Z": {"pages/s": {0}},
	}, failed: []string{"V"}}
	for _, c := range []struct {
		name string
		bar  bar
		want string
	}{
		{"at least, held", bar{limit: 3, name: "X", unit: perSecond, over: "Y"}, "3 PASS"},
		{"at least, missed", bar{limit: 3.1, name: "X", unit: perSecond, over: "Y"}, "**3 MISS**"},
		{"at most, held at the bar", bar{limit: 150, atMost: true, name: "X", unit: "MB"}, "150 PASS"},
		{"at most, missed", bar{limit: 149, atMost: true, name: "X", unit: "MB"}, "**150 MISS**"},
		{"an aim is not a promise", bar{limit: 149, atMost: true, aim: true, name: "X", unit: "MB"}, "150 not yet"},
		{"another crawler that failed", bar{limit: 1, name: "X", unit: perSecond, over: "V"}, "**failed**"},
		{"a crawl that failed", bar{limit: 1, name: "V", unit: perSecond, over: "X"}, "**failed**"},
		{"no figure", bar{limit: 1, name: "X", unit: "conns/host"}, "–"},
		{"no other crawler", bar{limit: 1, name: "X", unit: perSecond, over: "W"}, "–"},
		{"the other fetched nothing", bar{limit: 1, name: "X", unit: perSecond, over: "Z"}, "–"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.bar.verdict(run); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.3: "1.30", 2: "2", 31.25: "31.2", 100.4: "100", 31_250: "31,250",
		-0.5: "-0.50"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) is %q, want %q", v, got, want)
		}
	}
	if got := spread([]float64{3, 1, 2}); got != "2 (1–3)" {
		t.Errorf("spread %q", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

func TestFactsNameTheFile(t *testing.T) {
	f := facts{date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), commit: "abc-dirty", goVer: "go1.26", cores: 2}
	if got := f.file(); got != "2026-01-02-abc-dirty.txt" {
		t.Errorf("file %q", got)
	}
	if text := f.lines(); !strings.Contains(text, "commit: abc-dirty\n") || strings.Contains(text, "memory") {
		t.Errorf("lines %q", text)
	}
}
