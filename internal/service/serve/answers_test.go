package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/service"
)

// lines takes a log while the test reads it.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Answers about an ended crawl have lists where the document says lists, large ones are compressed for clients that
// take that, a missing file has its reason, and the log of the server tells of the crawl.
func TestAnswersOfAnEndedCrawl(t *testing.T) {
	t.Parallel()
	log := &lines{}
	f := newFixture(t, func(o *service.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	key := f.key("one", service.ScopeAdmin)
	c := f.client(key)
	id := f.submit(c, f.submission(0, nil))
	f.until(c, id, 0, service.CrawlFinished)
	at := "/v1/crawls/" + id

	if text := f.want(200, "GET", at+"/runs", key, ""); strings.Contains(text, "null") {
		t.Errorf("runs: %s", text)
	}
	if text := f.want(404, "GET", at+"/sitemap.csv", key, ""); !strings.Contains(text, "the setting csv") {
		t.Errorf("sitemap.csv: %s", text)
	}
	if text := f.want(422, "GET", at+"/pages?sort=-size", key, ""); !strings.Contains(text, "content_length") ||
		!strings.Contains(text, "response_time") {
		t.Errorf("a wrong order: %s", text)
	}
	f.http = &http.Client{} // the other one compares answers with the document, and does not know compressed ones
	for _, path := range []string{at + "/pages.jsonl", at + "/pages", "/openapi.json"} {
		plain := f.want(200, "GET", path, key, "", "Accept-Encoding", "identity")
		_, header, text := f.do("GET", path, key, "", "Accept-Encoding", "br;q=1, gzip;q=0.5")
		unzipped, err := gzip.NewReader(strings.NewReader(text))
		if header.Get("Content-Encoding") != "gzip" || err != nil || len(text) >= len(plain) {
			t.Fatalf("%s: encoding %q, %d of %d bytes, %v", path, header.Get("Content-Encoding"), len(text), len(plain),
				err)
		}
		if got, err := io.ReadAll(unzipped); err != nil || string(got) != plain {
			t.Errorf("%s: %d bytes unzipped, want %d: %v", path, len(got), len(plain), err)
		}
		if _, header, _ := f.do("GET", path, key, "", "Accept-Encoding",
			"gzip;q=0"); header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a client that refuses it", path)
		}
		if etag := header.Get("ETag"); etag != "" {
			f.want(304, "GET", path, key, "", "Accept-Encoding", "gzip", "If-None-Match", etag)
		}
	}
	if _, header, _ := f.do("GET", at+"/runs", key, "", "Accept-Encoding",
		"gzip"); header.Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
	for _, want := range []string{"msg=crawl.started crawl=" + id, "msg=crawl.finished crawl=" + id,
		`\"state\":\"complete\"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}

// Texts to search for in lists of crawls are bounded, in the API and on the page.
func TestLongSearchTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("one", service.ScopeRead)
	d := newDashboard(t, smallSite(), "")
	b := d.loggedIn()
	for _, name := range []string{"q", "label"} {
		longest := "?" + name + "=" + strings.Repeat("x", 200)
		f.want(200, "GET", "/v1/crawls"+longest, key, "")
		if text := f.want(422, "GET", "/v1/crawls"+longest+"x", key, ""); !strings.Contains(text,
			`{"field":"`+name+`","code":"too_long","detail":"it has 201 bytes, at most 200 are allowed"}`) {
			t.Errorf("%s: %s", name, text)
		}
		b.get("/" + longest).want("No crawl matches these filters.")
		p := b.get("/" + longest + "x")
		if p.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: the page answers %d", name, p.status)
		}
		p.want(name + ": it has 201 bytes, at most 200 are allowed")
	}
}

// A text that is no cursor is refused by every list, and cursors of lists lead through them.
func TestCursors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("one", service.ScopeAdmin)
	hook := f.want(201, "POST", "/v1/webhooks", key, `{"url":"https://hooks.example.net/"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(hook), &made); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crawls", "queue", "schedules", "webhooks", "webhooks/" + made.ID + "/deliveries",
		"keys", "accounts", "plans", "hosts", "audit"} {
		for _, cursor := range []string{"none", "Zm9v", "06gudk50ia9ifbtmihiakii3", "%00", "~"} {
			if text := f.want(422, "GET", "/v1/"+name+"?cursor="+cursor, key, ""); !strings.Contains(text,
				`"field":"cursor"`) {
				t.Errorf("%s?cursor=%s: %s", name, cursor, text)
			}
		}
	}
	for range 4 {
		f.want(201, "POST", "/v1/keys", key, `{"name":"k","scopes":["read"]}`)
	}
	seen, next := map[string]bool{}, ""
	for range 10 {
		var part service.List[service.Key]
		if err := json.Unmarshal([]byte(f.want(200, "GET", "/v1/keys?limit=2&cursor="+next, key, "")),
			&part); err != nil {
			t.Fatal(err)
		}
		for _, k := range part.Items {
			seen[k.ID] = true
		}
		if next = part.NextCursor; next == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d keys in parts, want 5", len(seen))
	}
}

// Allow has exactly the methods that the address has.
func TestAllow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("one", service.ScopeAdmin)
	id := "06gudk50ia9ifbtmihiakii3"
	f.http = &http.Client{} // the document does not name HEAD
	for path, want := range map[string]string{
		"/v1/crawls": "GET, HEAD, POST", "/v1/crawls/" + id: "GET, HEAD, PATCH, DELETE", "/v1/crawls/" + id +
			"/pause": "POST",
		"/v1/crawls/" + id + "/recrawl": "POST", "/v1/crawls/" + id + "/report": "GET, HEAD", "/v1/crawls/" + id +
			"/sitemap.csv": "GET, HEAD",
		"/v1/hosts/a.test/deny": "PUT, DELETE", "/healthz": "GET, HEAD",
	} {
		allowed := strings.Split(want, ", ")
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			status, header, text := f.do(method, path, key, "")
			if slices.Contains(allowed, method) {
				if status == http.StatusMethodNotAllowed {
					t.Errorf("%s %s is refused: %s", method, path, text)
				}
				continue
			}
			if status != http.StatusMethodNotAllowed || header.Get("Allow") != want {
				t.Errorf("%s %s: status %d, Allow %q, want %q", method, path, status, header.Get("Allow"), want)
			}
		}
	}
}

// The type of every error leads to a page that explains it.
func TestProblemTypes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, path := range []string{"/v1/me", "/v1/none", "/problems/none"} {
		var problem struct{ Type, Title string }
		_, _, text := f.do("GET", path, "", "")
		if err := json.Unmarshal([]byte(text), &problem); err != nil {
			t.Fatal(err)
		}
		if page := f.want(200, "GET", problem.Type, "", ""); !strings.HasPrefix(page, problem.Title+"\n") {
			t.Errorf("%s leads to %q", problem.Type, page)
		}
	}
	for _, code := range []service.ErrorCode{
		service.ErrInvalid, service.ErrNotFound, service.ErrState, service.ErrUnauthorized, service.ErrForbidden,
		service.ErrReused,
		service.ErrExists, service.ErrInUse, service.ErrPlanLimit, service.ErrRateLimit, service.ErrDiskFull,
		service.ErrUnavailable,
		service.ErrMethod,
		service.ErrMediaType, service.ErrTooLarge, service.ErrHost, service.ErrBody, service.ErrTimeout,
		service.ErrRange, service.ErrInternal,
	} {
		if code.Title() == "" || code.Explanation() == "" {
			t.Errorf("%s has no title or explanation", code)
		}
	}
}

// While the disk of the server is nearly full, a submission is answered with 507 and a reason, and a crawl is deleted.
func TestAnswersOnAFullDisk(t *testing.T) {
	t.Parallel()
	const least = 1 << 30
	var free atomic.Int64
	free.Store(least)
	f := newFixture(t, func(o *service.Options) {
		o.MinFree, o.FreeBytes = least, func(string) (int64, error) { return free.Load(), nil }
	})
	key := f.key("one", service.ScopeWrite)
	const submission = `{"start_urls":["https://a.example/"]}`
	id := f.idOf(f.want(202, "POST", "/v1/crawls", key, submission))
	free.Store(least - 1)
	text := f.want(507, "POST", "/v1/crawls", key, submission)
	if !strings.Contains(text, `/problems/disk-full"`) || !strings.Contains(text, "less than 1.0 GiB") {
		t.Errorf("a submission is refused with %s", text)
	}
	f.want(507, "PATCH", "/v1/crawls/"+id, key, `{"name":"n"}`)
	f.want(200, "GET", "/v1/crawls/"+id, key, "")
	f.want(202, "DELETE", "/v1/crawls/"+id, key, "")
}

// A fault of a start URL has the place that the URL has in the request, whatever stands before it.
func TestPlaceOfAStartURL(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("one", service.ScopeWrite)
	text := f.want(422, "POST", "/v1/crawls", key,
		`{"start_urls":["https://a.example/","https://a.example/","http://[","https://a.example/","http://10.0.0.1/"]}`)
	for _, want := range []string{`"start_urls[2]"`, `"start_urls[4]"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Count(text, `"start_urls[`) != 2 {
		t.Errorf("other faults: %s", text)
	}
}

// Tenants are not told of the operator's settings.
func TestSettingsOfTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	tenant, admin := f.want(200, "GET", "/v1/settings", f.key("one", service.ScopeWrite), ""),
		f.want(200, "GET", "/v1/settings", f.key("two", service.ScopeAdmin), "")
	if strings.Contains(tenant, `"operator"`) || !strings.Contains(tenant, `"max_urls"`) ||
		!strings.Contains(admin, `"operator"`) {
		t.Errorf("a tenant sees %s", tenant)
	}
}

// A part of a list of pages is bounded in bytes, whatever the pages hold, while the crawl runs and after its end; its
// cursor leads to the rest.
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const pages, lineBytes, most = 24, 640 << 10, 6 << 20
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			for i := range pages {
				fmt.Fprintf(w, "<a href=/%d></a>", i)
			}
			fmt.Fprint(w, "<a href=/held></a>")
		case "/held":
			<-held
		default:
			fmt.Fprint(w, strings.Repeat("<p>"+strings.Repeat("x", 4000)+"</p>", lineBytes/4000))
		}
	}))
	t.Cleanup(site.Close)
	key := f.key("one", service.ScopeAdmin)
	c := f.client(key)
	s := f.submission(0, map[string]any{"allow_private": true, "extract": []string{"x=p"}})
	s.StartURLs = []string{site.URL + "/"}
	id := f.submit(c, s)
	read := func(when, query string) {
		t.Helper()
		seen, cursor := map[string]bool{}, ""
		for range 2 * pages {
			text := f.want(200, "GET", "/v1/crawls/"+id+"/pages?limit=1000"+query+"&cursor="+cursor, key, "")
			var list struct {
				Items []struct{ URL string }
				Next  string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatal(err)
			}
			if len(text) > most {
				t.Errorf("%s: %d bytes in one part", when, len(text))
			}
			for _, item := range list.Items {
				if seen[item.URL] {
					t.Errorf("%s: %s is listed twice", when, item.URL)
				}
				seen[item.URL] = true
			}
			if cursor = list.Next; cursor == "" {
				break
			}
		}
		if len(seen) != pages+2 {
			t.Errorf("%s: %d pages are listed, want %d", when, len(seen), pages+2)
		}
	}
	f.untilDone(c, id, pages+1)
	read("running", "")
	release()
	f.until(c, id, 0, service.CrawlFinished)
	read("ended", "")
	read("sorted", "&sort=-content_length")
}

// Few answers are compressed at the same time, however many clients take files and read nothing of them. Others get the
// same as it is.
func TestCompressionIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.key("one", service.ScopeAdmin)
	c := f.client(key)
	id := f.submit(c, f.submission(0, nil))
	f.until(c, id, 0, service.CrawlFinished)
	file := make([]byte, 8<<20) // more than the buffers of a connection hold
	_, _ = rand.NewChaCha8([32]byte{}).Read(file)
	if err := os.WriteFile(filepath.Join(string(f.svc.Crawls.DataDir(id)), "sitemap.csv"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network,
		address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}}
	defer transport.CloseIdleConnections()
	get := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", f.url+"/v1/crawls/"+id+"/sitemap.csv", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Accept-Encoding", "gzip")
		res, err := transport.RoundTrip(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		return res
	}
	var open []*http.Response
	compressed := 0
	for range 12 {
		res := get()
		open = append(open, res)
		if res.Header.Get("Content-Encoding") == "gzip" {
			compressed++
		}
	}
	if compressed != 8 {
		t.Errorf("%d answers of 12 are compressed at the same time", compressed)
	}
	last := get()
	got, err := io.ReadAll(last.Body)
	if err != nil || last.Header.Get("Content-Encoding") != "" || !bytes.Equal(got, file) {
		t.Errorf("%d bytes, %v, %v", len(got), last.Header, err)
	}
	for _, res := range append(open, last) {
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	for again := false; !again; { // when the server has seen that the clients have gone
		res := get()
		again = res.Header.Get("Content-Encoding") == "gzip"
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
