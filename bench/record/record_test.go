package main

import (
	"errors"
	"flag"
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
	text, err := page(all, string(changes))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "RESULTS.md", text)
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
	if len(all) != 2 || all[0].fact("commit") != "0123456789" {
		t.Fatalf("%d recordings, the newest of %s", len(all), all[0].fact("commit"))
	}
	if r := all[0]; r.runs() != 4 || r.fact("cpu") != "Example CPU @ 2.00GHz" || len(r.failures()) == 0 {
		t.Errorf("%d runs on %q, failures %q", r.runs(), r.fact("cpu"), r.failures())
	}
	part := recording{text: "date: 2030\nrun: 1\nBenchmarkRecrawl/pages=1000000/crawl=first-2 1 100 pages/s\n"}
	if got := newestWhole([]recording{part, all[0]}); got != 1 {
		t.Errorf("the newest with the scenarios is number %d", got)
	}
}

func TestVerdicts(t *testing.T) {
	f := figures{{"X", "pages/s"}: 30, {"X", "anon-B"}: 150e6, {"Y", "pages/s"}: 10, {"Z", "pages/s"}: 0}
	for _, c := range []struct {
		name string
		bar  bar
		want string // "" if there is no figure
	}{
		{"at least, held", bar{limit: 3, name: "X", unit: perSecond, over: "Y"}, "3 PASS"},
		{"at least, missed", bar{limit: 3.1, name: "X", unit: perSecond, over: "Y"}, "**3 MISS**"},
		{"at most, held at the bar", bar{limit: 150, atMost: true, name: "X", unit: "anon-MB"}, "150 PASS"},
		{"at most, missed", bar{limit: 149, atMost: true, name: "X", unit: "anon-MB"}, "**150 MISS**"},
		{"an aim is not a promise", bar{limit: 149, atMost: true, aim: true, name: "X", unit: "anon-MB"},
			"150 not yet"},
		{"no figure", bar{limit: 1, name: "X", unit: "conns/host"}, ""},
		{"no other crawler", bar{limit: 1, name: "X", unit: perSecond, over: "W"}, ""},
		{"the other fetched nothing", bar{limit: 1, name: "X", unit: perSecond, over: "Z"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if v, ok := c.bar.value(f); ok {
				got = c.bar.verdict(v)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
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
