package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientOf is a client of a handler, which is called with mu held.
func clientOf(t *testing.T, mu *sync.Mutex, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		h(w, r)
	}))
	c, err := New(Options{URL: s.URL + "/base/", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
}

// A request that may be repeated is sent again when the server asks to wait or the connection breaks, always with the
// same idempotency key.
func TestRepeats(t *testing.T) {
	var mu sync.Mutex
	var keys []string // guarded by mu
	c := clientOf(t, &mu, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if r.URL.Path != "/base/v1/crawls" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s with %s", r.URL.Path, r.Header.Get("Authorization"))
		}
		switch len(keys) {
		case 1:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"x"}`)
		}
	})
	crawl, err := c.Submit(t.Context(), service.Submission{}, "")
	mu.Lock()
	defer mu.Unlock()
	if err != nil || crawl.ID != "x" || len(keys) != 3 || keys[0] == "" || keys[0] != keys[2] {
		t.Errorf("%+v, %v, keys %q", crawl, err, keys)
	}
}

// What cannot be repeated safely is sent once.
func TestNotRepeated(t *testing.T) {
	var mu sync.Mutex
	n := 0 // guarded by mu
	c := clientOf(t, &mu, func(http.ResponseWriter, *http.Request) {
		n++
		panic(http.ErrAbortHandler)
	})
	_, err := c.Recrawl(t.Context(), "x", service.Recrawl{})
	mu.Lock()
	defer mu.Unlock()
	if err == nil || n != 1 {
		t.Errorf("sent %d times: %v", n, err)
	}
}

// The problem document of a refusal is the error.
func TestProblems(t *testing.T) {
	c := clientOf(t, new(sync.Mutex), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "<html>", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(service.Document{Detail: "no", State: service.Running,
			Allowed: []service.Command{service.CommandPause}})
	})
	_, err := c.Command(t.Context(), "x", service.CommandResume)
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusConflict || e.State != service.Running ||
		err.Error() != "no (allowed now: [pause])" {
		t.Errorf("%v", err)
	}
	if _, err = c.Crawl(t.Context(), "x"); !IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

// A stream that breaks goes on after the last event, also if it broke before the first.
func TestEventsGoOn(t *testing.T) {
	var mu sync.Mutex
	var asked []string // guarded by mu
	c := clientOf(t, &mu, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1:
			_, _ = io.WriteString(w, "retry: 1000\nid: 7\n\n")
		case 2:
			http.Error(w, "a proxy that does not reach the server", http.StatusBadGateway)
		case 3:
			_, _ = io.WriteString(w,
				"id: 7\n\nid: 8\nevent: crawl.queued\ndata: {\"id\":8,\"type\":\"crawl.queued\"}\n\nevent: "+
					"sample\ndata: {\"type\":\"sample\"}\n\nid: 9\ndata: {\"id\":")
		default:
			_, _ = io.WriteString(w, ": \n\nid: 9\ndata: {\"id\":9,\"type\":\"crawl.finished\"}\n\n")
		}
	})
	lost := 0
	c.o.Lost = func(error) { lost++ }
	var ids []int64
	for event, err := range c.Events(t.Context(), "x", -1) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, event.ID); event.Type == service.CrawlFinished {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(ids, []int64{8, 0, 9}) || !slices.Equal(asked, []string{"", "7", "7", "8"}) || lost != 3 {
		t.Errorf("events %v after asking for %q; %d streams were lost", ids, asked, lost)
	}
}

func TestAddresses(t *testing.T) {
	for _, text := range []string{"", "127.0.0.1:8080", "ftp://x/", "http://", ":"} {
		if _, err := New(Options{URL: text}); err == nil {
			t.Errorf("%q is taken for an address", text)
		}
	}
}
