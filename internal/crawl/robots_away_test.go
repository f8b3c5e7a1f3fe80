package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// timedWeb is a web in a bubble that notes when each URL was requested. An answer "> URL" is a redirect, which takes
// 100 ms; all others take no time. "429 seconds" is a refusal, and everything else is the text. A robots.txt without an
// answer is a 404, and any other URL is a page without links.
type timedWeb struct {
	answers map[string]string // by URL without its scheme

	mu   sync.Mutex
	from time.Time // guarded by mu; of the first request
	log  []string  // guarded by mu; "seconds URL", in order
}

func (w *timedWeb) Do(_ context.Context, r fetch.Request) (*fetch.Response, error) {
	if err := r.Wire.Start(); err != nil {
		return nil, &fetch.Error{Kind: fetch.Canceled, Phase: "connect", Err: err}
	}
	url := strings.TrimPrefix(r.URL.String(), "http://")
	w.mu.Lock()
	if w.from.IsZero() {
		w.from = time.Now()
	}
	w.log = append(w.log, fmt.Sprintf("%g %s", time.Since(w.from).Seconds(), url))
	w.mu.Unlock()
	answer, known := w.answers[url]
	resp := &fetch.Response{Status: http.StatusOK, Proto: "HTTP/1.1", Header: http.Header{}, ContentType: "text/html",
		ContentLength: -1, Charset: "utf-8", Body: []byte(answer)}
	if r.Mode == fetch.Stream {
		resp.Reader = strings.NewReader(answer)
	}
	switch {
	case strings.HasPrefix(answer, "> "):
		time.Sleep(100 * time.Millisecond)
		resp.Status, resp.Location, resp.Body = http.StatusFound, answer[2:], nil
	case strings.HasPrefix(answer, "429 "):
		resp.Status, resp.RetryAfter, resp.Body = http.StatusTooManyRequests, answer[4:], nil
	case !known && strings.HasSuffix(url, "/robots.txt"):
		resp.Status = http.StatusNotFound
	}
	return resp, nil
}

// requests are the requests of a host so far, in order.
func (w *timedWeb) requests(host string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, entry := range w.log {
		if _, url, _ := strings.Cut(entry, " "); strings.HasPrefix(url, host+"/") {
			list = append(list, entry)
		}
	}
	return list
}

func (w *timedWeb) want(t *testing.T, host string, want ...string) {
	t.Helper()
	if got := w.requests(host); !slices.Equal(got, want) {
		t.Errorf("requests of %s:\n got %q\nwant %q", host, got, want)
	}
}

// options are those of a crawl with one request a second to each host.
func (w *timedWeb) options(t *testing.T, starts_ ...string) Options {
	s := config.Defaults(config.Polite)
	s.MinDelayMS, s.MaxDelayMS, s.MaxInflightPerHost = 1000, 1000, 1
	s.MaxWorkers, s.BloomCapacity, s.SeedingStrategy = 16, 100_000, []string{"none"}
	return Options{Settings: s, Fetcher: w, NoControl: true, Starts: starts(t, starts_...), Dir: newDir(t),
		Version: "test", Log: testLog(t, slog.LevelWarn)}
}

func (w *timedWeb) crawl(t *testing.T, starts ...string) map[string]line {
	t.Helper()
	o := w.options(t, starts...)
	rep, err := runAlone(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Status != page.Complete {
		t.Errorf("status %s", rep.Status)
	}
	return readLines(t, o.Dir)
}

func wantOutcomes(t *testing.T, lines map[string]line, want map[string]string) {
	t.Helper()
	for url, outcome := range want {
		if got := lines[url].Outcome; got != outcome {
			t.Errorf("%s is %q, want %q", url, got, outcome)
		}
	}
}

const forbidsNo = "User-agent: *\nDisallow: /no"

// A redirect to another host is requested at that host's pace, once for all origins that lead there, and the pages come
// right after.
func TestRobotsOfAnotherHostKeepItsPace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"a.test/robots.txt":     "> http://rules.test/shared.txt",
			"b.test/robots.txt":     "> http://rules.test/shared.txt",
			"rules.test/robots.txt": "User-agent: *\nCrawl-delay: 7", "rules.test/shared.txt": forbidsNo,
		}}
		lines := w.crawl(t, "http://rules.test/1", "http://rules.test/2", "http://a.test/no", "http://a.test/yes",
			"http://b.test/no", "http://b.test/yes")
		wantOutcomes(t, lines, map[string]string{
			"http://a.test/no": "blocked_by_robots", "http://a.test/yes": "ok", "http://b.test/no": "blocked_by_robots",
			"http://b.test/yes": "ok", "http://rules.test/1": "ok",
		})
		w.want(t, "rules.test", "0 rules.test/robots.txt", "7 rules.test/shared.txt", "14 rules.test/1",
			"21 rules.test/2")
		w.want(t, "a.test", "0 a.test/robots.txt", "7 a.test/yes")
		w.want(t, "b.test", "0 b.test/robots.txt", "7 b.test/yes")
	})
}

// Five redirects over five hosts are followed; a sixth means that there is no robots.txt. Each hop is one request.
func TestRobotsOverManyHosts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"long.test/robots.txt": "> http://h0.test/x", "short.test/robots.txt": "> http://h1.test/x",
			"h0.test/x": "> http://h1.test/x", "h1.test/x": "> http://h2.test/x", "h2.test/x": "> http://h3.test/x",
			"h3.test/x": "> http://h4.test/x",
			"h4.test/x": "> http://h5.test/x", "h5.test/x": forbidsNo,
		}}
		lines := w.crawl(t, "http://short.test/no", "http://long.test/no")
		wantOutcomes(t, lines, map[string]string{"http://short.test/no": "blocked_by_robots",
			"http://long.test/no": "ok"})
		w.want(t, "h0.test", "0.1 h0.test/x")
		for i := 1; i <= 4; i++ {
			host := fmt.Sprintf("h%d.test", i)
			w.want(t, host, fmt.Sprintf("0.%d %s/x", i, host), fmt.Sprintf("1.%d %s/x", i, host))
		}
		w.want(t, "h5.test", "0.5 h5.test/x")
		w.want(t, "short.test", "0 short.test/robots.txt")
	})
}

// A host that rests for an hour keeps the pages of an origin that redirects to it waiting for thirty seconds.
func TestRobotsOfAHostThatRests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"a.test/robots.txt": "> http://rests.test/x", "rests.test/robots.txt": "429 3600",
			"rests.test/x": forbidsNo,
		}}
		o := w.options(t, "http://rests.test/", "http://a.test/no")
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if _, err := runAlone(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		w.want(t, "rests.test", "0 rests.test/robots.txt")
		w.want(t, "a.test", "0 a.test/robots.txt", "30.1 a.test/no")
	})
}

// A robots.txt that is another origin's too is requested once, whichever of the two needs it first.
func TestRobotsOfAnotherOriginIsRequestedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"a.test/robots.txt": "> http://www.a.test/robots.txt", "www.a.test/robots.txt": forbidsNo,
			"a.test/": `<a href="http://www.a.test/yes">x</a><a href="http://www.a.test/no">x</a>`,
		}}
		o := w.options(t, "http://a.test/")
		o.Settings.Scope = "domain"
		if _, err := runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, readLines(t, o.Dir), map[string]string{"http://www.a.test/yes": "ok",
			"http://www.a.test/no": "blocked_by_robots"})
		w.want(t, "www.a.test", "0.1 www.a.test/robots.txt", "1.1 www.a.test/yes")
	})
}

// A crawl that ends while an origin waits asks again when it is resumed.
func TestResumeWhileRobotsWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := &timedWeb{answers: map[string]string{
			"a.test/robots.txt": "> http://rules.test/x", "rules.test/robots.txt": "User-agent: *\nCrawl-delay: 20",
			"rules.test/x": forbidsNo,
		}}
		o := w.options(t, "http://rules.test/", "http://a.test/no", "http://a.test/yes")
		ctx, kill := context.WithCancel(t.Context())
		var killed sync.WaitGroup
		killed.Go(func() {
			time.Sleep(5 * time.Second)
			kill()
		})
		if _, err := runAlone(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		killed.Wait()
		synctest.Wait()
		w.want(t, "a.test", "0 a.test/robots.txt")
		plan, err := datadir.ReadPlan(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		o.Plan, o.Starts = plan, nil
		if _, err := runAlone(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, readLines(t, o.Dir), map[string]string{"http://a.test/no": "blocked_by_robots",
			"http://a.test/yes": "ok", "http://rules.test/": "ok"})
		if got := w.requests("a.test"); len(got) != 3 || !strings.HasSuffix(got[1], "a.test/robots.txt") ||
			!strings.HasSuffix(got[2], "a.test/yes") {
			t.Errorf("requests %q", got)
		}
	})
}
