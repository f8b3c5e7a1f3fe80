package seeding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on loopback and returns the address, and a client to ask it with.
func serve(t *testing.T, h http.HandlerFunc) (string, fetch.Fetcher) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return srv.URL, client
}

// hastyCT makes a source that does not pause.
func hastyCT(t *testing.T, base string, n Names, f fetch.Fetcher) *ctLog {
	t.Helper()
	s, err := newCTLog(base, n, f)
	if err != nil {
		t.Fatal(err)
	}
	s.client.limits.pause, s.client.limits.backoff = 0, 0
	return s
}

// hastyCommonCrawl makes a source that does not pause.
func hastyCommonCrawl(t *testing.T, base string, f fetch.Fetcher) *commonCrawl {
	t.Helper()
	s, err := newCommonCrawl(base, f)
	if err != nil {
		t.Fatal(err)
	}
	s.client.limits.pause, s.client.limits.backoff = 0, 0
	return s
}

// collect is a sink that remembers.
func collect(into *[]string) sinkFunc {
	return func(_ context.Context, urls []weburl.URL) error {
		for _, u := range urls {
			*into = append(*into, u.String())
		}
		return nil
	}
}

// canned is a fetcher that answers from a list and notes when it was asked.
type canned struct {
	answers []any // a status, a body, a *fetch.Response or an error; the last one stays
	asked   []time.Duration
	began   time.Time
}

func (c *canned) Do(context.Context, fetch.Request) (*fetch.Response, error) {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	c.asked = append(c.asked, time.Since(c.began))
	answer := c.answers[0]
	if len(c.answers) > 1 {
		c.answers = c.answers[1:]
	}
	switch a := answer.(type) {
	case int:
		return &fetch.Response{Status: a}, nil
	case string:
		return &fetch.Response{Status: http.StatusOK, Reader: strings.NewReader(a)}, nil
	case *fetch.Response:
		return a, nil
	}
	return nil, answer.(error)
}

func TestRetriesAreSpacedOut(t *testing.T) {
	secs := func(list ...int) (out []time.Duration) {
		for _, n := range list {
			out = append(out, time.Duration(n)*time.Second)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		answers []any
		asked   []time.Duration
		err     string // part of it; empty means none
	}{
		{"at once", []any{"[]"}, secs(0), ""},
		{"backoff doubles", []any{503, 502, errors.New("reset"), "[]"}, secs(0, 2, 6, 14), ""},
		{"gives up", []any{504}, secs(0, 2, 6, 14), "after 4 attempts: status 504"},
		{"a page that says it is busy", []any{"<html>busy</html>", "[]"}, secs(0, 2), ""},
		{"an answer cut short", []any{`[{"name_value":"a.x.test"},{"name_`, "[]"}, secs(0, 2), ""},
		{"nothing at all", []any{"", "[]"}, secs(0, 2), ""},
		{"Retry-After is longer", []any{&fetch.Response{Status: 429, RetryAfter: "30"}, "[]"}, secs(0, 30), ""},
		{"Retry-After is too long", []any{&fetch.Response{Status: 429, RetryAfter: "3600"}, "[]"}, secs(0),
			"wait for 1h0m0s"},
		{"forbidden", []any{403}, secs(0), "status 403"},
		{"not found", []any{404}, secs(0), "status 404"},
		{"a refused address", []any{&fetch.Error{Kind: fetch.RefusedAddress, Err: errors.New("private")}}, secs(0),
			"private"},
		{"redirects for ever", []any{&fetch.Response{Status: 302, Location: "/"}}, secs(0, 0, 0, 0), "status 302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &canned{answers: c.answers}
				s, err := newCTLog("https://crt.test", exists{}, f)
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.URLs(t.Context(), "x.test", func(context.Context, []weburl.URL) error { return nil })
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				if !slices.Equal(f.asked, c.asked) {
					t.Errorf("asked at %v, want %v", f.asked, c.asked)
				}
			})
		})
	}
}

func TestRequestsAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &canned{answers: []any{`[{"id":"A","cdx-api":"https://cc.test/A-index"}]`, `{"pages": 3}`,
			`{"url":"https://x.test/"}`}}
		s, err := newCommonCrawl("https://cc.test", f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.URLs(t.Context(), "x.test", func(context.Context,
			[]weburl.URL) error {
			return nil
		}); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if !slices.Equal(f.asked, want) {
			t.Errorf("asked at %v, want %v", f.asked, want)
		}
	})
}

// A source that waits must not hold up the end of a crawl.
func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s, err := newCTLog("https://crt.test", exists{}, &canned{answers: []any{503}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := s.URLs(ctx, "x.test", nil); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestAddressesAreChecked(t *testing.T) {
	for _, base := range []string{"", "crt.sh", "ftp://crt.sh", "https://crt.sh/?q=1"} {
		if _, err := newCTLog(base, exists{}, &canned{}); err == nil {
			t.Errorf("base %q is accepted", base)
		}
		if _, err := newCommonCrawl(base, &canned{}); err == nil {
			t.Errorf("base %q is accepted", base)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Run("one row", func(t *testing.T) {
		f := &canned{answers: []any{`[{"name_value":"` + strings.Repeat("x", 2*maxRow) + `"}]`}}
		s := hastyCT(t, "https://crt.test", exists{}, f)
		s.client.limits.attempts = 1
		if _, err := s.URLs(t.Context(), "x.test", nil); !errors.Is(err, errShape) {
			t.Error(err)
		}
	})
	t.Run("a whole answer", func(t *testing.T) {
		var asked atomic.Int64
		base, f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			for {
				if _, err := fmt.Fprint(w, `[{"name_value":"a.x.test"},`+strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		})
		s := hastyCT(t, base, exists{}, f)
		s.client.limits.maxBytes = 1 << 20
		if _, err := s.URLs(t.Context(), "x.test", func(context.Context,
			[]weburl.URL) error {
			return nil
		}); err == nil {
			t.Error("an endless answer was read to its end")
		}
		if n := asked.Load(); n > 4 {
			t.Errorf("asked %d times", n)
		}
	})
}
