package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// revisit records a generation in the data directory of a crawl that ended: what visits of some URLs found.
func revisit(t *testing.T, dir string, generation uint32, found map[string]func(known *page.Facts) recrawl.Answer) {
	t.Helper()
	s, err := state.Open(datadir.Dir(dir).State(), state.Options{Mode: state.ExistingOnly})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(r frontier.Record) {
		if _, err := s.Commit(r); err != nil {
			t.Fatal(err)
		}
	}
	commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: page.FactGeneration,
		Value: fmt.Append(nil, generation)}}})
	for url, visit := range found {
		key := s.Hasher().Key(weburl.MustCanonical(url))
		p, _, err := s.Page(t.Context(), key)
		if err != nil || p.Finish == nil {
			t.Fatalf("%s: %v", url, err)
		}
		known, err := recrawl.KnownFrom(p.Finish)
		if err != nil {
			t.Fatal(err)
		}
		answer := visit(known.Facts)
		answer.At = time.Now()
		v := recrawl.Judge(known, &answer)
		again := p.Link
		again.Visit, again.Before = p.Finish.Visit+1, p.Finish.Summary()
		f := &frontier.Finish{Key: key, Visit: again.Visit, Generation: generation, Before: again.Before,
			CheckedAt: answer.At, Attempts: 1}
		if v.Facts != nil {
			f.Facts = v.Facts.Append(nil)
		}
		v.Record(f)
		commit(frontier.Record{Visits: []frontier.Link{again}})
		commit(frontier.Record{Finish: f})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	dir := crawled(t)
	got := run(t, "changes", "--data-dir", dir)
	if got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "was not repeated yet") {
		t.Errorf("without a recrawl: %d, %q, %q", got.code, got.stdout, got.stderr)
	}

	var urls []string
	for url, l := range readLines(t, dir) {
		if l.Outcome == "ok" && l.TextHash != "" {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	if len(urls) < 3 {
		t.Fatalf("only %d pages were read", len(urls))
	}
	gone := func(*page.Facts) recrawl.Answer {
		return recrawl.Answer{Outcome: page.HTTPError, Status: 404,
			Facts: &page.Facts{ResponseTime: new(page.Millis(1))}}
	}
	retitled := func(title string) func(*page.Facts) recrawl.Answer {
		return func(known *page.Facts) recrawl.Answer {
			f := *known
			f.Title, f.TextHash = title, new(page.Hash(len(title)))
			return recrawl.Answer{Outcome: page.OK, Status: 200, Facts: &f}
		}
	}
	revisit(t, dir, 1, map[string]func(*page.Facts) recrawl.Answer{urls[0]: retitled("First <title>\x1b"),
		urls[1]: gone})
	revisit(t, dir, 2, map[string]func(*page.Facts) recrawl.Answer{
		urls[0]: retitled("Second"), urls[2]: func(*page.Facts) recrawl.Answer {
			return recrawl.Answer{Status: 304, Conditional: true, Facts: &page.Facts{}}
		},
	})

	last := run(t, "changes", dir)
	succeeded(t, last)
	if want := "Generation 2: 1 changed\n\nChanged (1)\n  " + urls[0] +
		"\n    title: First <title>\\u001b -> Second\n    the text changed\n"; last.stdout != want {
		t.Errorf("it prints\n%s\nwant\n%s", last.stdout, want)
	}
	all := run(t, "changes", "--data-dir", dir, "--since", "1")
	succeeded(t, all)
	for _, want := range []string{
		"Generations 1 to 2: 2 changed, 1 gone\n", "\nChanged (2)\n  " + urls[0] + " (generation 1)\n    title: ",
		"  " + urls[0] + " (generation 2)\n",
		"\nGone (1)\n  " + urls[1] + " (generation 1)\n    outcome: ok -> http_error\n    status_code: 200 -> 404\n",
	} {
		if !strings.Contains(all.stdout, want) {
			t.Errorf("no %q in\n%s", want, all.stdout)
		}
	}

	// The lines are those of the file, and both fit the schema.
	s := readSchemaOf(t, "changes-jsonl")
	asJSON := run(t, "changes", "--data-dir", dir, "--json")
	succeeded(t, asJSON)
	succeeded(t, run(t, "export", "--data-dir", dir))
	file, err := os.ReadFile(filepath.Join(dir, "changes.jsonl"))
	if err != nil || string(file) != asJSON.stdout || len(file) == 0 {
		t.Errorf("changes.jsonl is %q, %v; printed is %q", file, err, asJSON.stdout)
	}
	every := run(t, "changes", "--data-dir", dir, "--json", "--since", "0")
	succeeded(t, every)
	lines := 0
	for row := range strings.Lines(every.stdout) {
		lines++
		if err := s.checkLine([]byte(row)); err != nil {
			t.Errorf("%v in %s", err, row)
		}
	}
	if lines != 3 {
		t.Errorf("%d lines:\n%s", lines, every.stdout)
	}
	fitsSchema(t, dir)
	if l := readLines(t, dir)[urls[2]]; l.Generation != 2 || l.Change != "unchanged" || l.CheckedAt <= l.CrawledAt ||
		l.ChangedAt != "" {
		t.Errorf("a page that answered 304: %+v", l)
	}
	if l := readLines(t, dir)[urls[1]]; l.Generation != 1 || l.Change != "gone" || l.ChangedAt == "" {
		t.Errorf("a page that is gone: %+v", l)
	}

	if got := run(t, "changes", "--data-dir", dir, "--since", "3"); got.code != 2 ||
		!strings.Contains(got.stderr, "the last one is 2") {
		t.Errorf("a generation that is not there: %d, %s", got.code, got.stderr)
	}
	if got := run(t, "changes", dir, "--data-dir", dir); got.code != 2 {
		t.Errorf("a directory given twice: %d, %s", got.code, got.stderr)
	}
	if got := run(t, "wipe", "--yes", "--data-dir", dir); got.code != 0 || exists(t, filepath.Dir(dir), "data") {
		t.Errorf("wipe leaves something: %s%s", got.stdout, got.stderr)
	}
}

// The examples of docs/changes-jsonl.md fit the schema, there is one of each change, and the program would write them
// so.
func TestDocumentedChanges(t *testing.T) {
	t.Parallel()
	s := readSchemaOf(t, "changes-jsonl")
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "changes-jsonl.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for row := range strings.Lines(string(text)) {
		if !strings.HasPrefix(row, `{"schema_version"`) {
			continue
		}
		if err := s.checkLine([]byte(row)); err != nil {
			t.Errorf("%v in %s", err, row)
		}
		l := parse[recrawl.Line](t, row)
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&l); err != nil || again.String() != row {
			t.Errorf("%v: the program would write\n%snot\n%s", err, again.String(), row)
		}
		seen[l.Change]++
	}
	for _, c := range page.Changes() {
		if c != page.Unchanged && seen[c.String()] != 1 {
			t.Errorf("%d examples of %s", seen[c.String()], c)
		}
	}
}
