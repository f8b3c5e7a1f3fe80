package recrawl

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
	"github.com/mapwright/mapwright/internal/test/e2e"
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
		f := v.Record(&answer)
		f.Key, f.Visit, f.Generation, f.Before, f.Attempts = key, again.Visit, generation, again.Before, 1
		commit(frontier.Record{Visits: []frontier.Link{again}})
		commit(frontier.Record{Finish: f})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	dir := e2e.Crawled(t)
	got := e2e.Run(t, "changes", "--data-dir", dir)
	if got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "was not repeated yet") {
		t.Errorf("without a recrawl: %d, %q, %q", got.Code, got.Stdout, got.Stderr)
	}

	var urls []string
	for url, l := range e2e.ReadLines(t, dir) {
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
			Facts: page.Facts{ResponseTime: new(page.Millis(1))}}
	}
	retitled := func(title string) func(*page.Facts) recrawl.Answer {
		return func(known *page.Facts) recrawl.Answer {
			f := *known
			f.Title, f.TextHash = title, new(page.Hash(len(title)))
			return recrawl.Answer{Outcome: page.OK, Status: 200, Facts: f}
		}
	}
	revisit(t, dir, 1, map[string]func(*page.Facts) recrawl.Answer{urls[0]: retitled("First <title>\x1b"),
		urls[1]: gone})
	revisit(t, dir, 2, map[string]func(*page.Facts) recrawl.Answer{
		urls[0]: retitled("Second"), urls[2]: func(*page.Facts) recrawl.Answer {
			return recrawl.Answer{Status: 304, Conditional: true, Facts: page.Facts{}}
		},
	})

	last := e2e.Run(t, "changes", dir)
	e2e.Succeeded(t, last)
	if want := "Generation 2: 1 changed\n\nChanged (1)\n  " + urls[0] +
		"\n    title: First <title>\\u001b -> Second\n    the text changed\n"; last.Stdout != want {
		t.Errorf("it prints\n%s\nwant\n%s", last.Stdout, want)
	}
	all := e2e.Run(t, "changes", "--data-dir", dir, "--since", "1")
	e2e.Succeeded(t, all)
	for _, want := range []string{
		"Generations 1 to 2: 2 changed, 1 gone\n", "\nChanged (2)\n  " + urls[0] + " (generation 1)\n    title: ",
		"  " + urls[0] + " (generation 2)\n",
		"\nGone (1)\n  " + urls[1] + " (generation 1)\n    outcome: ok -> http_error\n    status_code: 200 -> 404\n",
	} {
		if !strings.Contains(all.Stdout, want) {
			t.Errorf("no %q in\n%s", want, all.Stdout)
		}
	}

	// The lines are those of the file, and both fit the schema.
	s := e2e.ReadSchemaOf(t, "changes-jsonl")
	asJSON := e2e.Run(t, "changes", "--data-dir", dir, "--json")
	e2e.Succeeded(t, asJSON)
	e2e.Succeeded(t, e2e.Run(t, "export", "--data-dir", dir))
	file, err := os.ReadFile(filepath.Join(dir, "changes.jsonl"))
	if err != nil || string(file) != asJSON.Stdout || len(file) == 0 {
		t.Errorf("changes.jsonl is %q, %v; printed is %q", file, err, asJSON.Stdout)
	}
	every := e2e.Run(t, "changes", "--data-dir", dir, "--json", "--since", "0")
	e2e.Succeeded(t, every)
	lines := 0
	for row := range strings.Lines(every.Stdout) {
		lines++
		if err := s.CheckLine([]byte(row)); err != nil {
			t.Errorf("%v in %s", err, row)
		}
	}
	if lines != 3 {
		t.Errorf("%d lines:\n%s", lines, every.Stdout)
	}
	e2e.FitsSchema(t, dir)
	if l := e2e.ReadLines(t,
		dir)[urls[2]]; l.Generation != 2 || l.Change != "unchanged" || l.CheckedAt <= l.CrawledAt ||
		l.ChangedAt != "" {
		t.Errorf("a page that answered 304: %+v", l)
	}
	if l := e2e.ReadLines(t, dir)[urls[1]]; l.Generation != 1 || l.Change != "gone" || l.ChangedAt == "" {
		t.Errorf("a page that is gone: %+v", l)
	}

	if got := e2e.Run(t, "changes", "--data-dir", dir, "--since", "3"); got.Code != 2 ||
		!strings.Contains(got.Stderr, "the last one is 2") {
		t.Errorf("a generation that is not there: %d, %s", got.Code, got.Stderr)
	}
	if got := e2e.Run(t, "changes", dir, "--data-dir", dir); got.Code != 2 {
		t.Errorf("a directory given twice: %d, %s", got.Code, got.Stderr)
	}
	if got := e2e.Run(t, "wipe", "--yes", "--data-dir", dir); got.Code != 0 || e2e.Exists(t, filepath.Dir(dir),
		"data") {
		t.Errorf("wipe leaves something: %s%s", got.Stdout, got.Stderr)
	}
}

// The examples of docs/changes-jsonl.md fit the schema, there is one of each change, and the program would write them
// so.
func TestDocumentedChanges(t *testing.T) {
	t.Parallel()
	s := e2e.ReadSchemaOf(t, "changes-jsonl")
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "changes-jsonl.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for row := range strings.Lines(string(text)) {
		if !strings.HasPrefix(row, `{"schema_version"`) {
			continue
		}
		if err := s.CheckLine([]byte(row)); err != nil {
			t.Errorf("%v in %s", err, row)
		}
		l := e2e.Parse[recrawl.Line](t, row)
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
