package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

var update = flag.Bool("update", false, "write the golden files of answers anew")

// Every read of /v1, and every kind of error, answers as its golden file says: status, media type and body. Values that
// differ between runs, such as ids and times, are replaced by their names.
func TestGoldenAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	admin, reader, other := f.key("default", service.ScopeAdmin), f.key("default", service.ScopeRead),
		f.key("other", service.ScopeWrite)
	c := f.client(admin)
	submission := f.submission(0, map[string]any{"max_depth": 1})
	submission.Name, submission.Labels = "first", []string{"a", "b"}
	ended := "/v1/crawls/" + f.submit(c, submission)
	f.until(c, strings.TrimPrefix(ended, "/v1/crawls/"), 0, service.CrawlFinished)
	f.web.Hold(1)
	id := f.submit(c, f.submission(1, nil))
	running := "/v1/crawls/" + id
	f.untilDone(c, id, 1)
	f.want(202, "POST", running+"/pause", admin, "") // ends with the grace time: a held request is given up
	f.until(c, id, 0, service.CrawlPaused)
	schedule := "/v1/schedules/" + f.idOf(f.want(201, "POST", "/v1/schedules", admin,
		`{"name":"weekly","cron":"0 3 * * 1","submission":{"start_urls":["http://example.test/"]}}`))
	webhook := "/v1/webhooks/" + f.idOf(f.want(201, "POST", "/v1/webhooks", admin,
		`{"url":"https://127.0.0.1:1/","allow_private":true,"events":["crawl.finished"]}`))
	account := "/v1/accounts/" + f.accountID("other")
	f.want(200, "PUT", "/v1/plans/small", admin, `{"max_urls":10,"refused_settings":["links"]}`)
	f.want(200, "PUT", "/v1/hosts/denied.test/deny", admin, `{"reason":"asked for"}`)
	start := url.QueryEscape(f.web.StartURLs()[0])

	f.want(202, "POST", webhook+"/test", admin, "")
	tick := time.NewTicker(5 * time.Millisecond) // no event tells of an attempt
	defer tick.Stop()
	for !strings.Contains(f.want(200, "GET", webhook+"/deliveries", reader, ""), `"last_error":`) {
		<-tick.C
	}

	names := &normaliser{ids: map[string]string{}}
	for _, g := range []struct{ name, method, path, key, body string }{
		{"me", "GET", "/v1/me", reader, ""},
		{"settings", "GET", "/v1/settings", reader, ""},
		{"settings_admin", "GET", "/v1/settings", admin, ""},
		{"crawls", "GET", "/v1/crawls", reader, ""},
		{"crawls_filtered", "GET", "/v1/crawls?state=complete&label=a&q=fir", reader, ""},
		{"crawls_none", "GET", "/v1/crawls", other, ""},
		{"crawl", "GET", ended, reader, ""},
		{"crawl_paused", "GET", running, reader, ""},
		{"queue", "GET", "/v1/queue", reader, ""},
		{"pages", "GET", ended + "/pages?limit=2", reader, ""},
		{"pages_filtered", "GET", ended + "/pages?sort=-click_depth&outcome=ok&status=2xx&depth=0", reader, ""},
		{"pages_paused", "GET", running + "/pages?outcome=ok", reader, ""},
		{"page", "GET", ended + "/page?url=" + start, reader, ""},
		{"page_paused", "GET", running + "/page?url=" + url.QueryEscape(f.web.StartURLs()[1]), reader, ""},
		{"problems", "GET", ended + "/problems", reader, ""},
		{"problem", "GET", ended + "/problems/orphan", reader, ""},
		{"runs", "GET", ended + "/runs", reader, ""},
		{"pages_jsonl", "GET", ended + "/pages.jsonl", reader, ""},
		{"links", "GET", ended + "/links", reader, ""},
		{"sitemap_xml", "GET", ended + "/sitemap.xml", reader, ""},
		{"problems_jsonl", "GET", ended + "/problems.jsonl", reader, ""},
		{"schedules", "GET", "/v1/schedules", reader, ""},
		{"schedule", "GET", schedule, reader, ""},
		{"webhooks", "GET", "/v1/webhooks", reader, ""},
		{"webhook", "GET", webhook, reader, ""},
		{"deliveries", "GET", webhook + "/deliveries", reader, ""},
		{"hosts", "GET", "/v1/hosts", admin, ""},
		{"host", "GET", "/v1/hosts/denied.test", reader, ""},
		{"keys", "GET", "/v1/keys?limit=1", reader, ""},
		{"accounts", "GET", "/v1/accounts", admin, ""},
		{"account", "GET", account, other, ""},
		{"plans", "GET", "/v1/plans", reader, ""},
		{"usage", "GET", "/v1/usage", reader, ""},
		{"audit", "GET", "/v1/audit?limit=2", admin, ""},

		{"error_unauthorized", "GET", "/v1/me", "", ""},
		{"error_key", "GET", "/v1/me", "wrong", ""},
		{"error_scope", "POST", "/v1/crawls", reader, "{}"},
		{"error_admin", "GET", "/v1/audit", reader, ""},
		{"error_address", "GET", "/v1/none", reader, ""},
		{"error_method", "PUT", "/v1/crawls", admin, "{}"},
		{"error_crawl", "GET", "/v1/crawls/none", reader, ""},
		{"error_other_account", "GET", ended, other, ""},
		{"error_page", "GET", ended + "/page?url=http://none.test/", reader, ""},
		{"error_page_url", "GET", ended + "/page?url=ftp://none.test/", reader, ""},
		{"error_problem", "GET", ended + "/problems/none", reader, ""},
		{"error_problems_paused", "GET", running + "/problems", reader, ""},
		{"error_file_paused", "GET", running + "/pages.jsonl", reader, ""},
		{"error_file", "GET", ended + "/sitemap.csv", reader, ""},
		{"error_changes", "GET", ended + "/changes", reader, ""},
		{"error_part", "GET", ended + "/none", reader, ""},
		{"error_query", "GET", "/v1/crawls?state=none&limit=0&x=1&account=other", reader, ""},
		{"error_cursor", "GET", "/v1/keys?cursor=none", reader, ""},
		{"error_pages_query", "GET", ended + "/pages?outcome=x&status=6xx&depth=a&indexable=b&sort=c", reader, ""},
		{"error_pages_cursor", "GET", ended + "/pages?cursor=none", reader, ""},
		{"error_pages_sort_paused", "GET", running + "/pages?sort=status", reader, ""},
		{"error_usage_of_all", "GET", "/v1/usage?account=*", admin, ""},
		{"error_host", "GET", "/v1/hosts/-", admin, ""},
		{"error_account", "GET", account, reader, ""},
		{"error_body", "POST", "/v1/crawls", admin, "{"},
		{"error_fields", "POST", "/v1/crawls", admin, `{"start_urls":["x"],"priority":"1","none":1,"name":null}`},
		{"error_submission", "POST", "/v1/crawls", other,
			`{"start_urls":["ftp://x.test/"],"priority":10,"settings":{"none":1,"max_urls":"x","proxy":"http://p:1"}}`},
		{"error_command", "POST", ended + "/pause", admin, ""},
		{"error_plan", "PUT", "/v1/plans/small", admin, `{"max_urls":-1,"max_priority":10}`},
		{"error_schedule", "POST", "/v1/schedules", admin, `{"cron":"x","zone":"y"}`},
		{"error_webhook", "POST", "/v1/webhooks", other, `{"url":"x","events":["none"],"allow_private":true}`},
	} {
		t.Run(g.name, func(t *testing.T) {
			status, header, text := f.do(g.method, g.path, g.key, g.body)
			got := fmt.Sprintf("%d %s\n", status, header.Get("Content-Type"))
			for _, name := range []string{"Allow", "Cache-Control", "Retry-After", "Www-Authenticate"} {
				if value := header.Get(name); value != "" {
					got += name + ": " + value + "\n"
				}
			}
			text = names.normalise(header, text)
			if g.name == "deliveries" { // a slow machine has made the second attempt too, 10 s after the first
				text = regexp.MustCompile(`"attempts": \d+`).ReplaceAllString(text, `"attempts": 0`)
			}
			if strings.HasPrefix(g.name, "settings") {
				text = text[:1500] // package config tests the whole table
			}
			compareGolden(t, g.name, got+"\n"+text)
		})
	}
	t.Run("events", func(t *testing.T) {
		var text bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for event, err := range c.Events(ctx, strings.TrimPrefix(ended, "/v1/crawls/"), 0) {
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(line, '\n'))
			if event.Type == service.CrawlFinished {
				break
			}
		}
		compareGolden(t, "events", names.normalise(http.Header{}, text.String()))
	})
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "answers", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the answer differs from %s (write it anew with -update):\n%s", path, got)
	}
}

// idOf is the id of a thing that an answer has.
func (f *fixture) idOf(text string) string {
	f.t.Helper()
	var thing struct{ ID string }
	if err := json.Unmarshal([]byte(text), &thing); err != nil {
		f.t.Fatal(err)
	}
	return thing.ID
}

func (f *fixture) accountID(name string) string {
	f.t.Helper()
	account, err := f.svc.Accounts.Get(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	return account.ID
}

// normaliser replaces what differs between runs. The same id has the same name in all answers.
type normaliser struct{ ids map[string]string }

var (
	goldenID     = regexp.MustCompile(`\b(mw_)?[0-9a-v]{24,26}\b`)
	goldenTime   = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`)
	goldenPort   = regexp.MustCompile(`((?:\.test|\.example|127\.0\.0\.1)):\d+`)
	goldenNumber = regexp.MustCompile(`"(elapsed_seconds|pages_per_second\w*|bytes\w*|response_time\w*|\w+_ms|` +
		`duration\w*|cpu\w*|memory\w*|p50|p95|p99|median|seconds\w*|used|requests|last|id|max|min|mean)": ?-?[\d.e+-]+`)
	goldenHash = regexp.MustCompile(`"(\w*hash|instance|version|next_cursor|etag|period)": ?"(?:[^"\\]|\\.)*"`)
)

func (n *normaliser) normalise(header http.Header, text string) string {
	if kind := header.Get("Content-Type"); strings.HasPrefix(kind, "application/json") ||
		strings.HasPrefix(kind, "application/problem+json") {
		var out bytes.Buffer
		if json.Indent(&out, []byte(text), "", " ") == nil {
			text = out.String()
		}
	} else if kind == "application/jsonl" {
		lines := strings.SplitAfter(text, "\n")
		slices.Sort(lines)
		text = strings.Join(lines, "")
	}
	text = goldenTime.ReplaceAllString(text, "TIME")
	text = goldenPort.ReplaceAllString(text, "$1:PORT")
	text = goldenNumber.ReplaceAllString(text, `"$1": 0`)
	text = goldenHash.ReplaceAllString(text, `"$1": "TEXT"`)
	return goldenID.ReplaceAllStringFunc(text, func(id string) string {
		if n.ids[id] == "" {
			n.ids[id] = fmt.Sprintf("ID%d", len(n.ids)+1)
		}
		return n.ids[id]
	})
}
