package report

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// A site of which the problems need more temporary files than there is room for has its map all the same: no problem is
// looked for, and the report and a warning say why.
func TestProblemsWithoutRoom(t *testing.T) {
	s := newSite(t)
	words := 5
	for from := range 1500 {
		var r frontier.Record
		path := fmt.Sprintf("%s/%d", strings.Repeat("x", 1900), from)
		s.link(weburl.URL{}, path, &r)
		s.commit(r)
		var a recrawl.Answer
		a.Outcome, a.Status, a.Facts.WordCount, a.Facts.ContentType = page.OK, 200, &words, "text/html"
		s.visit(path, a)
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
