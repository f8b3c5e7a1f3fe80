package seeding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// collinfo is the list of indexes in the form of Common Crawl's, here with the newest in the middle.
const collinfo = `[
{"id":"CC-MAIN-2024-10","name":"February/March 2024 Index","timegate":"https://index.commoncrawl.org/CC-MAIN-2024-10/","cdx-api":"%[1]s/CC-MAIN-2024-10-index","from":"2024-02-20T21:02:25","to":"2024-03-05T11:20:42"},
{"id":"CC-MAIN-2024-18","name":"April 2024 Index","timegate":"https://index.commoncrawl.org/CC-MAIN-2024-18/","cdx-api":"%[1]s/CC-MAIN-2024-18-index","from":"2024-04-12T10:02:36","to":"2024-04-25T15:52:25"},
{"id":"CC-MAIN-2008-2009","name":"Index of 2008 - 2009 ARC files","timegate":"https://index.commoncrawl.org/CC-MAIN-2008-2009/","cdx-api":"%[1]s/CC-MAIN-2008-2009-index"}
]`

// row is a capture in the form of Common Crawl's.
func row(url, status string) string {
	return fmt.Sprintf(`{"urlkey": "test,example)/", "timestamp": "20240412101112", "url": %q, "mime": "text/html", "mime-detected": "text/html", "status": %q, "digest": "KV2A3", "length": "5432", "offset": "123", "filename": "crawl-data/x.warc.gz", "languages": "eng", "encoding": "UTF-8"}`+"\n", url, status)
}

// captureIndex serves a Common Crawl whose pages are given. Its list names the public server's addresses, or its own.
func captureIndex(t *testing.T, own bool, pages []string, before func(w http.ResponseWriter, r *http.Request) bool) (string,
	fetch.Fetcher, *[]string) {
	t.Helper()
	asked := new([]string)
	base, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RequestURI())
		if before != nil && before(w, r) {
			return
		}
		q := r.URL.Query()
		switch {
		case r.URL.Path == "/collinfo.json" && own:
			fmt.Fprintf(w, collinfo, "http://"+r.Host)
		case r.URL.Path == "/collinfo.json":
			fmt.Fprintf(w, collinfo, "https://index.commoncrawl.org")
		case r.URL.Path != "/CC-MAIN-2024-18-index" || q.Get("url") != "example.test" ||
			q.Get("matchType") != "domain" || q.Get("output") != "json":
			http.Error(w, "bad request", http.StatusBadRequest)
		case q.Get("showNumPages") == "true":
			fmt.Fprintf(w, `{"pages": %d, "pageSize": 5, "blocks": 11}`, len(pages))
		default:
			var n int
			if _, err := fmt.Sscan(q.Get("page"), &n); err != nil || n < 0 || n >= len(pages) {
				http.Error(w, "bad page", http.StatusBadRequest)
				return
			}
			fmt.Fprint(w, pages[n])
		}
	})
	return base, f, asked
}

func TestCommonCrawl(t *testing.T) {
	pages := []string{
		row("http://example.test/", "200") + row("http://example.test/", "200") +
			row("https://www.example.test/a?b=1#c", "200") + row("https://example.test/moved", "301"),
		row("https://example.test/gone", "404") + row("https://example.test/robots.txt", "200") +
			row("https://notexample.test/", "200") + row("ftp://example.test/", "200") +
			`{"url": "https://example.test/old-form"}` + "\n",
		row("https://sub.example.test/\u00e4", "200"),
	}
	want := []string{"http://example.test/", "https://www.example.test/a?b=1", "https://example.test/old-form",
		"https://sub.example.test/%C3%A4"}
	for _, own := range []bool{true, false} {
		base, f, asked := captureIndex(t, own, pages, nil)
		s := hastyCommonCrawl(t, base, f)
		var got []string
		sum, err := s.URLs(t.Context(), "example.test", collect(&got))
		if err != nil || !slices.Equal(got, want) || sum != (summary{Rows: 10, Found: 4}) {
			t.Errorf("got %q, %+v, %v", got, sum, err)
		}
		if len(*asked) != 5 {
			t.Errorf("asked %q", *asked)
		}
	}
}

func TestCommonCrawlReadsAPageAgain(t *testing.T) {
	failures := map[string]int{"/collinfo.json": 1, "showNumPages": 2, "page=1": 2}
	base, f, _ := captureIndex(t, true, []string{row("https://example.test/0", "200"), row("https://example.test/1", "200")},
		func(w http.ResponseWriter, r *http.Request) bool {
			for part, left := range failures {
				if left > 0 && strings.Contains(r.URL.RequestURI(), part) {
					failures[part]--
					if part == "page=1" { // half an answer, the second time with an end in the middle of a row
						fmt.Fprint(w, row("https://example.test/half", "200")+`{"urlkey": "te`)
						return true
					}
					http.Error(w, "busy", http.StatusServiceUnavailable)
					return true
				}
			}
			return false
		})
	s := hastyCommonCrawl(t, base, f)
	var got []string
	sum, err := s.URLs(t.Context(), "example.test", collect(&got))
	want := []string{"https://example.test/0", "https://example.test/half", "https://example.test/half",
		"https://example.test/1"}
	if err != nil || !slices.Equal(got, want) || sum.Rows != 2 {
		t.Errorf("got %q, %+v, %v", got, sum, err)
	}
}

func TestCommonCrawlHasNothing(t *testing.T) {
	for name, before := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"no pages": nil,
		"not found": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/collinfo.json" {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message": "No Captures found for: example.test"}`)
			return true
		},
	} {
		base, f, asked := captureIndex(t, true, nil, before)
		s := hastyCommonCrawl(t, base, f)
		sum, err := s.URLs(t.Context(), "example.test", nil)
		if err != nil || sum != (summary{}) || len(*asked) != 2 {
			t.Errorf("%s: %+v, %v, asked %q", name, sum, err, *asked)
		}
	}
}

func TestCommonCrawlDead(t *testing.T) {
	base, f, _ := captureIndex(t, true, []string{row("https://example.test/0", "200"), "", ""},
		func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("page") != "1" {
				return false
			}
			http.Error(w, "gateway time-out", http.StatusGatewayTimeout)
			return true
		})
	s := hastyCommonCrawl(t, base, f)
	var got []string
	_, err := s.URLs(t.Context(), "example.test", collect(&got))
	if status, ok := errors.AsType[*statusError](err); !ok || status.Status != 504 ||
		!strings.Contains(err.Error(), "page 2 of 3") || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCommonCrawlNumberAlone(t *testing.T) {
	f := &canned{answers: []any{`[{"id":"A"}]`, "1\n", `{"url":"https://x.test/"}`}}
	s := hastyCommonCrawl(t, "https://cc.test/mirror/", f)
	var got []string
	if _, err := s.URLs(t.Context(), "x.test", collect(&got)); err != nil || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzCaptures(f *testing.F) {
	f.Add([]byte(row("http://x.test/", "200") + row("http://a.x.test/", "301")))
	f.Add([]byte(`{"url":"http://x.test/","status":200}` + "\n\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var sum summary
		n := int64(0)
		_ = readCaptures(t.Context(), strings.NewReader(string(text)), "x.test",
			func(_ context.Context, urls []weburl.URL) error {
				for _, u := range urls {
					if !within(u.Host(), "x.test") {
						t.Fatalf("%s is not within the domain", u)
					}
				}
				n += int64(len(urls))
				return nil
			}, &sum)
		if n != sum.Found || n > sum.Rows {
			t.Fatalf("%d handed over, %+v", n, sum)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("a.x.test\n*.x.test")
	f.Add("*.*.X.test.\nx.test:80/@")
	f.Fuzz(func(t *testing.T, text string) {
		s := &nameSet{domain: "x.test", seen: map[string]bool{}}
		for name := range strings.SplitSeq(text, "\n") {
			if err := s.add(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range s.list {
			if !within(u.Host(), "x.test") || u.String() != "https://"+u.Host()+"/" {
				t.Fatalf("a name became %s", u)
			}
		}
	})
}
