package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// Lines are what the schema says, whatever servers do. Only names that DNS does not know and pages that kill the
// program are left out here.
func TestEveryLineFitsTheSchema(t *testing.T) {
	t.Parallel()
	one := testweb.Where{Count: 1}
	web := e2e.Serve(t, testweb.Config{Seed: 3, Hosts: 4, Pages: 20, Sitemaps: &testweb.Sitemaps{Orphans: 2},
		Faults: slices.Concat(
			testweb.On("0", testweb.RedirectChain{Length: 12}, testweb.RedirectLoop{Length: 3},
				testweb.StatusPages{Where: testweb.Where{Count: 2}}, testweb.Disallow{Count: 3},
				testweb.NoIndex{Count: 2}, testweb.Canonical{}, testweb.NoFollow{}, testweb.Hreflang{},
				testweb.WrongType{},
				testweb.Files{}, testweb.Charsets{}, testweb.Encodings{},
				testweb.Malformed{}, testweb.LinkZoo{}, testweb.PathTrap{}, testweb.LongURL{}),
			testweb.On("1", testweb.Huge{Where: one}, testweb.GzipBomb{Where: one}),
			testweb.On("2", testweb.Reset{Where: one}), testweb.On("3", testweb.Truncate{Where: one}),
		)})
	// What a synthetic web has not: an address that is refused, a port where no server listens, one without TLS, and
	// one page that is always refused.
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<html><meta property="og:title" content="x"><script type="application/ld+json">{"@type":"Thing"}</script><b>1</b><b>2</b><i>3</i>
				<a href="http://10.255.255.1:81/">a</a> <a href="https://%s/">b</a> <a href="/busy">c</a> <img src="/i.png">`, r.Host)
		case "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(plain.Close)
	dead := "http://127.0.0.2:" + strings.Split(e2e.ClosedPort(t), ":")[1]
	args := []string{"crawl", "--scope", "any", "--profile", "own-site", "--resolve", web.Resolve(), "--max-retries",
		"1", "--max-host-backoff-secs", "1",
		"--max-host-failures", "3", "--failure-threshold", "0", "--images", "--links", "--csv", "--extract", "b=b",
		"--extract", "i=i", "--start-url", plain.URL}
	for i := range 6 {
		args = append(args, "--start-url", fmt.Sprintf("%s/%d", dead, i))
	}
	for _, u := range web.StartURLs() {
		args = append(args, "--start-url", u)
	}
	dir := filepath.Join(t.TempDir(), "data")
	e2e.Run(t, append(args, "--data-dir", dir)...)
	got := e2e.FitsSchema(t, dir)
	// A time-out that a page reaches soon is one that any page reaches on a busy machine, so this is another crawl.
	slow := e2e.Serve(t, testweb.Config{Pages: 1, Faults: testweb.OnAll(testweb.Hang{})})
	dir = filepath.Join(t.TempDir(), "data")
	e2e.Run(t, "crawl", "--profile", "own-site", "--resolve", slow.Resolve(), "--start-url", slow.StartURLs()[0],
		"--timeout", "1", "--max-retries", "0", "--max-host-backoff-secs", "1", "--data-dir", dir)
	got["timeout"] = e2e.FitsSchema(t, dir)["timeout"]
	for _, o := range page.Outcomes() {
		switch o {
		case page.DNSError, page.Crashed, page.Pending: // see above; Pending is below
		case page.Excluded: // of crawls that are resumed with a narrower scope: see TestResumeWithANarrowerScope
		default:
			if got[o.String()] == 0 {
				t.Errorf("no line is %s: %v", o, got)
			}
		}
	}

	dir = filepath.Join(t.TempDir(), "data")
	e2e.Run(t, "crawl", "--profile", "own-site", "--resolve", web.Resolve(), "--start-url", web.StartURLs()[0],
		"--max-urls", "5", "--data-dir", dir)
	if got := e2e.FitsSchema(t, dir); got["pending"] == 0 {
		t.Errorf("no line is pending: %v", got)
	}
}

// docText is the documentation of sitemap.jsonl.
func docText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "sitemap-jsonl.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The documentation has one example of each outcome, each fits the schema, and together they show every field.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	s := e2e.ReadSchema(t)
	outcomes, shown := map[string]int{}, map[string]bool{}
	for row := range strings.Lines(docText(t)) {
		if !strings.HasPrefix(row, `{"schema_version"`) {
			continue
		}
		if err := s.CheckLine([]byte(row)); err != nil {
			t.Errorf("%v in %s", err, row)
		}
		// The order of fields is that of the program.
		l := e2e.Parse[page.Line](t, row)
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&l); err != nil || again.String() != row {
			t.Errorf("%v: the program would write\n%snot\n%s", err, again.String(), row)
		}
		outcomes[l.Outcome]++
		for name := range e2e.Parse[map[string]any](t, row) {
			shown[name] = true
		}
	}
	for _, o := range page.Outcomes() {
		if outcomes[o.String()] != 1 {
			t.Errorf("%d examples of %s", outcomes[o.String()], o)
		}
	}
	for _, name := range fieldsOf[page.Line]() {
		if !shown[name] && name != "indexable_reason" {
			t.Errorf("no example shows %s", name)
		}
	}
}

// fieldsOf are the names of a type's fields in JSON.
func fieldsOf[T any]() []string {
	var list []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			list = append(list, name)
		}
	}
	return list
}

// What the program writes, what the schema allows and what the documentation explains are the same names.
func TestDocumentationIsWhole(t *testing.T) {
	t.Parallel()
	s, doc := e2e.ReadSchema(t), docText(t)
	rows := func(name string) bool {
		return slices.ContainsFunc(strings.Split(doc, "\n"), func(row string) bool {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
			return strings.HasPrefix(row, "| ") && slices.Contains(strings.Split(first, ", "), "`"+name+"`")
		})
	}
	fields := map[string][]string{"line": fieldsOf[page.Line](), "robots": fieldsOf[page.LineRobots]()}
	for what, part := range map[string]*e2e.Schema{"line": s, "robots": s.Properties["robots"]} {
		for _, name := range fields[what] {
			if part.Properties[name] == nil || !rows(name) {
				t.Errorf("%s of %s: in the schema %v, in the documentation %v", name, what,
					part.Properties[name] != nil, rows(name))
			}
		}
		if len(part.Properties) != len(fields[what]) {
			t.Errorf("the schema of %s has %d fields, the program %d", what, len(part.Properties), len(fields[what]))
		}
	}
	for _, name := range []string{"from", "to", "rel", "text", "nofollow"} {
		if !rows(name) {
			t.Errorf("%s of links.jsonl is not documented", name)
		}
	}
	var outcomes []any
	for _, o := range page.Outcomes() {
		outcomes = append(outcomes, o.String())
		if !rows(o.String()) {
			t.Errorf("the outcome %s is not documented", o)
		}
	}
	for _, name := range s.Properties["outcome"].Enum {
		if !slices.Contains(outcomes, name) {
			t.Errorf("the schema knows an outcome %v", name)
		}
	}
	for _, reason := range s.Properties["indexable_reason"].Enum {
		if !rows(reason.(string)) {
			t.Errorf("the reason %v is not documented", reason)
		}
	}
}
