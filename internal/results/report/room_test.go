package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// A site of which the problems need more temporary files than there is room for has its map all the same: no problem is
// looked for, and the report and a warning say why.
func TestProblemsWithoutRoom(t *testing.T) {
	s := newSite(t)
	words := 5
	for from := range 1500 {
		var a recrawl.Answer
		a.Outcome, a.Status, a.Facts.WordCount, a.Facts.ContentType = page.OK, 200, &words, "text/html"
		s.add(fmt.Sprintf("%s/%d", strings.Repeat("x", 1900), from), a)
	}
	if err := s.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		room *datadir.Room
		why  string // empty if there is room
	}{
		"enough": {&datadir.Room{Space: disk.Space{Min: -1}, Allowed: func() int64 { return 1 << 40 }}, ""},
		"a plan": {&datadir.Room{Space: disk.Space{Min: -1}, Allowed: func() int64 { return 0 }}, "the plan of the account"},
		"a full disk": {datadir.NewRoom(1, func(string) (int64, error) { return 1 << 20, nil }),
			"the disk is nearly full"},
	} {
		rep := &Report{Status: page.Complete}
		crawl := &Crawl{Store: s.store, Settings: config.Defaults(config.Polite), Dir: s.dir, Room: c.room}
		if err := crawl.Complete(t.Context(), rep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := crawl.RemoveLeftOut(rep); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range rep.Problems {
			if c.why != "" && (p.Result != problems.NotChecked || !strings.Contains(p.Why, c.why) || len(p.Items) > 0) ||
				c.why == "" && p.Code == problems.TitleMissing.String() && p.Count != 1500 {
				t.Errorf("%s: %s is %s, %q, %d items", name, p.Code, p.Result, p.Why, p.Count)
			}
		}
		_, err := os.Stat(s.dir.Problems())
		if is := slices.Contains(rep.Files, datadir.ProblemsName); is != (c.why == "") || is != (err == nil) {
			t.Errorf("%s: files %q, problems.jsonl %v", name, rep.Files, err)
		}
		warned := slices.ContainsFunc(rep.Warnings, func(w string) bool {
			return strings.HasPrefix(w, datadir.ProblemsName+" was not written")
		})
		if warned != (c.why != "") || len(rep.Problems) == 0 {
			t.Errorf("%s: warnings %q", name, rep.Warnings)
		}
		lines := 0
		readJSON(t, s.dir.JSONL(), func(page.Line) { lines++ })
		if lines != 1500 {
			t.Errorf("%s: %d lines, want 1500", name, lines)
		}
	}
}

// Redirects and click depths, without which there is a map too, are left out with the reason if there is no room to
// sort them.
func TestFiguresWithoutRoom(t *testing.T) {
	failure := errors.New("the disk is broken")
	for why, bound := range map[string]error{
		"the plan of the account": &datadir.NoRoomError{},
		"the disk is nearly full": &datadir.NoRoomError{DiskFull: true},
		"":                        nil, failure.Error(): failure,
	} {
		sorts := extsort.Space{Dir: t.TempDir(), Pattern: "sort-*", Bytes: 2000,
			Bound: func(int64) error { return bound }}
		f, s, rep := newFigures(0), newSummary(sorts), &Report{}
		f.graph = newClickGraph(sorts)
		for i := range 300 {
			l := &page.Line{URL: weburl.MustCanonical(fmt.Sprintf("http://a.test/%d", i)),
				Outcome: page.Redirect.String(), Source: page.SourceName(page.SourceStart)}
			l.RedirectTo = "http://a.test/"
			f.see(l)
			s.see(l)
		}
		err := cmp.Or(f.fill(t.Context(), rep), s.fill(t.Context(), rep))
		f.close()
		s.redirects.close()
		if why == failure.Error() {
			if !errors.Is(err, failure) {
				t.Errorf("error %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", why, err)
		}
		if d := rep.ClickDepths; d.Known != (why == "") || !strings.Contains(d.Why, why) {
			t.Errorf("%q: click depths %+v", why, d)
		}
		listed := rep.Redirects != nil && len(rep.Redirects.Items) > 0
		if text := strings.Join(rep.Warnings, "\n"); listed != (why == "") || !strings.Contains(text, why) {
			t.Errorf("%q: redirects %v, warnings %q", why, rep.Redirects, text)
		}
	}
}

// A crawl whose pages cannot be sorted because the disk has too little space has no files yet; it leaves others what
// must stay free, and more.
func TestSortOnAFullDisk(t *testing.T) {
	s := newSite(t)
	for i := range 450 {
		var a recrawl.Answer
		path := fmt.Sprint(i)
		a.Outcome, a.Status, a.Facts.Description = page.OK, 200, strings.Repeat(path, 60<<10/len(path))
		s.add(path, a)
	}
	if err := s.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const least, chunk, margin = 1 << 30, 25 << 20, 64 << 20
	for _, c := range []struct {
		free int64
		fits bool
	}{{least + chunk, false}, {least + margin, false}, {least + margin + 2*chunk, true}} {
		room := datadir.NewRoom(least, func(string) (int64, error) { return c.free, nil })
		crawl := &Crawl{Store: s.store, Settings: config.Defaults(config.Polite), Dir: s.dir, Room: room}
		err := crawl.Complete(t.Context(), &Report{Status: page.Complete})
		if c.fits != (err == nil) || !c.fits && !errors.Is(err, disk.ErrFull) {
			t.Errorf("%d MiB are free: %v", c.free>>20, err)
		}
	}
}
