package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkRecrawl crawls a site (crawl=first), lets one page in a hundred change, and crawls it again (crawl=again).
// MAPWRIGHT_BENCH_RECRAWL is how many pages there are. Figures are per page of the site. log-B is what was written to
// the log, view-B by how much the store's tables grew; what the changed pages wrote is in both.
func BenchmarkRecrawl(b *testing.B) {
	pages := sizeOf(b, "MAPWRIGHT_BENCH_RECRAWL", 100_000, 500)
	s := Recrawl(pages)
	b.Run(fmt.Sprint("pages=", pages), func(b *testing.B) {
		w := startWeb(b, s)
		tmp := b.TempDir()
		dir, generation := "", 0
		b.Run("crawl=first", func(b *testing.B) {
			for b.Loop() {
				var err error
				if dir, err = os.MkdirTemp(tmp, "data"); err != nil {
					b.Fatal(err)
				}
				dir = filepath.Join(dir, "crawl")
				r := recrawling{w: w, s: s, dir: dir}
				f := r.measure(b, oursIn(b, w, dir))
				if f.Pages != int64(pages) || f.Duplicates != 0 || f.Bodies != int64(pages) {
					b.Errorf("%d of %d pages fetched with %d bodies, %d twice", f.Pages, pages, f.Bodies, f.Duplicates)
				}
			}
		})
		b.Run("crawl=again", func(b *testing.B) {
			for b.Loop() {
				generation++
				if err := w.SetGeneration(generation); err != nil {
					b.Fatal(err)
				}
				r := recrawling{w: w, s: s, dir: dir}
				f := r.measure(b, exec.Command(program(b, "mapwright", "..", "./cmd/mapwright"), "recrawl",
					"--data-dir", dir, "--json", "--log-level", "warn", "--metrics-addr", "127.0.0.1:0"))
				r.check(b, f)
			}
		})
	})
}

// recrawling is a crawl of a site, the first or a later one.
type recrawling struct {
	w   *Web
	s   Scenario
	dir string
}

// measure measures a crawl and reports its figures.
func (r recrawling) measure(b *testing.B, cmd *exec.Cmd) Figures {
	b.Helper()
	before := r.tables(b)
	f, err := Measure(r.w, cmd)
	if err != nil {
		b.Fatal(err)
	}
	pages := float64(r.s.URLs())
	logged, grown := r.logged(b), float64(r.tables(b)-before)
	b.ReportMetric(pages/f.Crawl.Seconds(), "pages/s")
	b.ReportMetric(float64(f.CPU.Microseconds())/pages, "cpu-µs/page")
	b.ReportMetric(float64(f.ServerCPU.Microseconds())/pages, "server-µs/page")
	b.ReportMetric(f.AnonymousMB, "anon-MB")
	b.ReportMetric(f.AnonymousMB-f.HotSetMB, "anon-less-hot-MB")
	b.ReportMetric(float64(f.Bodies)/pages, "bodies/page")
	b.ReportMetric(logged/pages, "log-B/page")
	b.ReportMetric(grown/pages, "view-B/page")
	b.ReportMetric((logged+grown)/pages, "written-B/page")
	b.ReportMetric(f.Export.Seconds(), "export-s")
	b.ReportMetric(0, "ns/op")
	return f
}

// check wants a recrawl to have asked for every page under conditions, and to have read only those that changed and
// those whose 304 it verified: ten, and one in a hundred.
func (r recrawling) check(b *testing.B, f Figures) {
	b.Helper()
	pages := int64(r.s.URLs())
	verified := f.Bodies - f.Changed
	if f.Conditional != pages || f.NotModified+f.Changed != pages || f.Changed+f.Unchanged != pages {
		b.Errorf("%d of %d pages were asked for under conditions, %d answers 304, %d changed, %d unchanged",
			f.Conditional, pages, f.NotModified, f.Changed, f.Unchanged)
	}
	if f.Changed == 0 || f.Changed > pages/20 || verified < min(10, f.NotModified) || verified > 30+pages/50 {
		b.Errorf("%d pages changed, and %d other bodies were read, of %d pages", f.Changed, verified, pages)
	}
}

// tables is the size of the store's tables and values on disk. It is 0 before the first crawl.
func (r recrawling) tables(b *testing.B) (size int64) {
	b.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, "state"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".sst") && !strings.HasSuffix(path, ".vlog") {
			return nil // the directory is not there yet
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}

// logged is how many bytes the last run has written to the log, by the last line of its metrics.
func (r recrawling) logged(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "metrics.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var last struct {
		Metrics struct {
			Written float64 `json:"mapwright_wal_written_bytes_total"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Metrics.Written == 0 {
		b.Fatalf("metrics.jsonl does not say how much was written to the log: %v", err)
	}
	return last.Metrics.Written
}
