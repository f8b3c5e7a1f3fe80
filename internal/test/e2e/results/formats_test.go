//go:build formats

package results

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/results/parquet"
	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
	"github.com/mapwright/mapwright/internal/test/warctest"
)

// tool is a program of the virtual environment that scripts/need-pytools.sh makes.
func tool(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "bin", "pytools", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

// freePort is one for a server that cannot choose its own.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func runTool(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// pywb replays every page of a crawl and of its recrawl, and warcio finds all digests right.
func TestFormatWARC(t *testing.T) {
	links, pages := "", map[string]string{}
	for i := range 30 {
		path := fmt.Sprintf("/page/%d", i)
		pages[path] = fmt.Sprintf("<title>Page %d</title><p>%s", i, strings.Repeat("text ", i*100))
		links += fmt.Sprintf("<a href=%s>%d</a>", path, i)
	}
	pages["/"] = links
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if strings.HasPrefix(r.URL.Path, "/page/1") {
			w.Header().Set("ETag", fmt.Sprintf("%q", r.URL.Path))
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	}))
	t.Cleanup(site.Close)
	dir, _, _ := e2e.CrawlSite(t, site, "--warc")
	<-time.After(time.Second) // pywb tells the records of a URL apart by the second
	e2e.Succeeded(t, e2e.Run(t, "recrawl", "--data-dir", dir))
	paths, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("files %q, %v", paths, err)
	}
	if out := runTool(t, tool(t, "warcio", append([]string{"check", "-v"}, paths...)...)); strings.Contains(out, "fail") ||
		strings.Count(out, "digest pass") < 3*len(pages) {
		t.Errorf("warcio check says:\n%s", out)
	}

	home := t.TempDir()
	for _, args := range [][]string{{"init", "all"}, append([]string{"add", "all"}, paths...)} {
		cmd := tool(t, "wb-manager", args...)
		cmd.Dir = home
		runTool(t, cmd)
	}
	port := freePort(t)
	addr := "127.0.0.1:" + port
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server := tool(t, "wayback", "-b", "127.0.0.1", "-p", port)
	server.Dir, server.Stdout, server.Stderr = home, log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() { _ = server.Process.Kill(); <-ended }()
	for up := false; !up; {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("pywb ended: %v\n%s", err, text)
		default:
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			up = true
		}
	}
	replays := map[string]int{}
	for _, r := range warctest.ReadDir(t, filepath.Join(dir, "warc")) {
		want, ok := pages[strings.TrimPrefix(r.URL, site.URL)]
		if !ok || r.Type != "response" && r.Type != "revisit" {
			continue
		}
		at := strings.NewReplacer("-", "", "T", "", ":", "").Replace(r.Header.Get("WARC-Date")[:19])
		res, err := http.Get(fmt.Sprintf("http://%s/all/%sid_/%s", addr, at, r.URL))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || string(body) != want {
			t.Errorf("%s %s of %s: replayed with %s, %d of %d bytes, %v", r.Type, r.Header.Get("WARC-Profile"), r.URL,
				res.Status, len(body), len(want), err)
		}
		replays[r.Type+r.Header.Get("WARC-Profile")]++
	}
	if len(replays) != 3 || replays["response"] != len(pages) {
		t.Errorf("replayed %v", replays)
	}
}

// compare holds each row of pages.parquet, as DuckDB reads it, against the line of sitemap.jsonl, and likewise
// links.parquet and problems.parquet against links.jsonl and problems.jsonl.
const compare = `
import duckdb, json, sys, time
lines = [json.loads(l) for l in open(sys.argv[1] + "/sitemap.jsonl", encoding="utf-8")]
table = duckdb.sql("SELECT * FROM '" + sys.argv[1] + "/pages.parquet'")
names, kinds = table.columns, [str(t) for t in table.types]
rows = table.project(", ".join(("epoch_ms(\"%s\")" if k.startswith("TIMESTAMP") else "\"%s\"") % n
    for n, k in zip(names, kinds))).fetchall()
assert len(rows) == len(lines) > 0, (len(rows), len(lines))
for line, row in zip(lines, rows):
    line.pop("schema_version")
    extracted = line.pop("extracted", {})
    for name, found in extracted.items():
        line["extracted." + name] = found if isinstance(found, list) else [found]
    got = {}
    for name, kind, value in zip(names, kinds, row):
        if kind == "JSON" and value is not None:
            value = json.loads(value)
        elif kind.startswith("TIMESTAMP") and value is not None:
            value = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(value // 1000)) + "%03dZ" % (value % 1000)
        if value is not None and not (kind == "BOOLEAN" and value is False and name not in line):
            got[name] = value
    assert got == line, (got, line)
print(json.dumps(dict(zip(names, kinds))))
links = [json.loads(l) for l in open(sys.argv[1] + "/links.jsonl", encoding="utf-8")]
table = duckdb.sql("SELECT * FROM '" + sys.argv[1] + "/links.parquet'")
rows = [{n: v for n, v in zip(table.columns, row) if v is not None and (n, v) != ("asset", False)}
    for row in table.fetchall()]
assert rows == links and len(rows) > 0, (rows, links)
assert {"asset", "content_length"} <= set().union(*links), links
severities = {p["code"]: p["severity"] for p in json.load(open(sys.argv[1] + "/report.json"))["problems"]}
problems = [json.loads(l) for l in open(sys.argv[1] + "/problems.jsonl", encoding="utf-8")]
table = duckdb.sql("SELECT * FROM '" + sys.argv[1] + "/problems.parquet'")
rows = [{n: v for n, v in zip(table.columns, row) if v is not None} for row in table.fetchall()]
for row in rows:
    assert row.pop("severity") == severities[row["code"]], row
assert rows == problems and any("related" in row and "texts" in row for row in rows), (rows, problems)
assert "broken_link" in {row["code"] for row in rows}, rows
print(duckdb.sql("SELECT count(*), sum(n), count(t), max(len(l)) FROM '" + sys.argv[2] + "'").fetchall()[0])
`

// DuckDB reads the same from pages.parquet as sitemap.jsonl has, with types, and reads a table of several groups.
func TestFormatParquet(t *testing.T) {
	site := e2e.Site(t, map[string]string{
		"/": `<html lang=en><title>“Home”</title><meta property=og:title content=x><link rel=alternate hreflang=de href=/de>
<script type=application/ld+json>[{"@type":"A"},{"@type":"B"}]</script><img src=/i.png><b>1</b><b>2</b><a href=/a>a</a><a href=/b>b</a>`,
		"/a":     `<title>A</title><b>only one</b><i>x</i>`,
		"/i.png": "png",
	}, nil)
	dir, _, got := e2e.CrawlSite(t, site, "--parquet", "--check-assets", "--images", "--extract", "bold=b",
		"--extract", "it=i")
	if !strings.Contains(got.Stdout, "pages.parquet") || !strings.Contains(got.Stdout, "problems.parquet") {
		t.Errorf("the files are not in the table:\n%s", got.Stdout)
	}
	large := filepath.Join(t.TempDir(), "large.parquet")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquet.New(f, "test", []parquet.Column{{Name: "n", Kind: parquet.Integer},
		{Name: "t", Kind: parquet.Text}, {Name: "l", Kind: parquet.Texts}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300_000 {
		row := []any{int64(i), fmt.Sprint("text ", i), []string{"a", "b"}[:i%3]}
		if i%7 == 0 {
			row[1] = nil
		}
		if err := w.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	out := runTool(t, tool(t, "python", "-c", compare, dir, large))
	types, sums, _ := strings.Cut(out, "\n")
	kinds := e2e.Parse[map[string]string](t, types)
	for name, want := range map[string]string{"url": "VARCHAR", "status_code": "BIGINT", "indexable": "BOOLEAN",
		"crawled_at": "TIMESTAMP WITH TIME ZONE", "images": "VARCHAR[]", "open_graph": "JSON",
		"extracted.bold": "VARCHAR[]"} {
		if kinds[name] != want {
			t.Errorf("%s has the type %s, want %s", name, kinds[name], want)
		}
	}
	if want := fmt.Sprintf("(300000, %d, %d, 2)\n", 300_000*299_999/2, 300_000-42_858); sums != want {
		t.Errorf("the large table: %swant %s", sums, want)
	}
}

// The commands of the documents that need Python work as they are written, after the others of their pages, and the
// replay of docs/archive.md shows the page that it names.
func TestFormatCommandsOfDocuments(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	all, err := documents.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Abs(filepath.Join(root, "bin", "pytools", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"archive.md", "sitemap-jsonl.md"} {
		t.Run(name, func(t *testing.T) {
			script := "export PATH=" + tools + ":$PATH\n" + all[name].Script("sh", "sh python")
			if !strings.Contains(script, "pip install") {
				t.Fatalf("the commands are\n%s", script)
			}
			if server := all[name].Script("sh server"); server != "" {
				page := regexp.MustCompile("`(http://127.0.0.1:8080/[^`]*)`").FindStringSubmatch(all[name].Text)
				if page == nil {
					t.Fatal("the document does not say where the page is")
				}
				script = strings.ReplaceAll(script+"("+server+`) &
server=$!
trap 'kill $server' EXIT
until curl -sfL -o replayed.html `+page[1]+`; do
  kill -0 $server
  read -rt 0.1 <> <(:) || true
done
grep -q example.com replayed.html
`, "8080", freePort(t))
			}
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web.Addr(), script)
		})
	}
}
