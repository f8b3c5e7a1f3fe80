package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A call takes a turn to compute a body that takes long, in whatever way it comes, and none for others.
func TestBodiesThatTakeLong(t *testing.T) {
	text := make([]byte, 4<<20) // 20 ms and more to decompress
	random := rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = "<abcdefgh> \n"[random.IntN(12)]
	}
	packed := func(text []byte) []byte {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		_, _ = z.Write(text)
		_ = z.Close()
		return b.Bytes()
	}
	long, short := packed(text), packed(text[:1000])
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mediaType, body := "text/html; charset=utf-8", long
		switch r.URL.Path {
		case "/short":
			body = short
		case "/text":
			mediaType = "text/plain"
		case "/untyped":
			mediaType = ""
			body = packed(append([]byte("<!doctype html>"), text...))
		}
		w.Header()["Content-Type"] = []string{mediaType}
		if mediaType == "" {
			w.Header()["Content-Type"] = nil
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	})
	var began, ended atomic.Int32
	c := newClient(t, Options{AllowPrivate: true, Compute: func(context.Context) func() {
		began.Add(1)
		return func() { ended.Add(1) }
	}})
	check := func(path string, r Request, want int32) {
		t.Helper()
		began.Store(0)
		ended.Store(0)
		r.URL = mustURL(t, s.URL+path)
		res, err := do(t, c, r)
		if err != nil {
			t.Fatal(path, err)
		}
		if r.Mode == Stream {
			_, _ = io.Copy(io.Discard, res.Reader)
		}
		res.Close()
		if b, e := began.Load(), ended.Load(); min(b, 1) != want || b != e {
			t.Errorf("%s: %d turns, %d of them ended; want %d", path, b, e, want)
		}
	}
	check("/long", Request{Mode: Page}, 1)
	check("/short", Request{Mode: Page}, 0)
	check("/text", Request{Mode: Text}, 1)
	check("/untyped", Request{Mode: Page}, 1)
	check("/long", Request{Mode: Stream}, 0) // its reader has one
}

// archiveInTurn notes whether bodies are given to it within a turn.
type archiveInTurn struct {
	memoryArchive
	turns, kept atomic.Int32
}

func (a *archiveInTurn) Keep(x *Exchange) string {
	a.kept.Store(a.turns.Load())
	return a.memoryArchive.Keep(x)
}

// What is archived is compressed in a turn, if it is not short, also a body that the caller did not want.
func TestArchivingTakesTurns(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		n := 1 << 10
		if r.URL.Path == "/long" {
			n = 1 << 20
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), n))
	})
	a := &archiveInTurn{memoryArchive: memoryArchive{dir: t.TempDir()}}
	c := newClient(t, Options{AllowPrivate: true, Archive: a, Compute: func(context.Context) func() {
		a.turns.Add(1)
		return func() { a.turns.Add(-1) }
	}})
	for path, want := range map[string]int32{"/long": 1, "/short": 0} {
		res, err := get(t, c, s.URL+path)
		if err != nil {
			t.Fatal(err)
		}
		res.Close()
		if got, left := a.kept.Load(), a.turns.Load(); got != want || left != 0 {
			t.Errorf("%s: archived in %d turns, want %d; %d did not end", path, got, want, left)
		}
	}
}

// Up to a minute of the wait for a turn does not count towards the time of the request. It ends with the request.
func TestWaitForTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := 59 * time.Second
		c := newClient(t, Options{Resolver: always("8.8.8.8"), Compute: func(ctx context.Context) func() {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			return func() {}
		}})
		pipeTo(t, c, answerPages(2<<20))
		res, err := get(t, c, "http://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Body) != 4<<20 || res.Timings.Total != 0 {
			t.Errorf("%d bytes, %+v", len(res.Body), res.Timings)
		}
		res.Close()
		wait = time.Hour
		for _, want := range []time.Duration{30 * time.Second, 80 * time.Second} { // of the caller, and of the request
			ctx, cancel := t.Context(), func() {}
			if want == 30*time.Second {
				ctx, cancel = context.WithTimeout(ctx, want)
			}
			defer cancel()
			began := time.Now()
			res, err = c.Do(ctx, Request{URL: mustURL(t, "http://a.example/")})
			if took := time.Since(began).Round(time.Second); err == nil || took != want {
				t.Errorf("%v after %v, want %v", err, took, want)
			}
			res.Close()
		}
	})
}

// answerPages answers with pages of n bytes of which each takes two in UTF-8.
func answerPages(n int) func(net.Conn) {
	return func(c net.Conn) {
		readRequest(c)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\nConnection: close\r\n\r\n%s",
			strings.Repeat("\xe9", n))
	}
}

// A call that waits for memory has no turn: those that have the memory may need it.
func TestNoTurnWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns sync.Mutex
		c := newClient(t, Options{Resolver: always("8.8.8.8"), MaxMemory: 1, Timeout: time.Hour,
			Compute: func(context.Context) func() {
				turns.Lock()
				return turns.Unlock
			}})
		pipeTo(t, c, answerPages(2<<20))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				res, err := get(t, c, fmt.Sprintf("http://%d.example/", i))
				if err != nil || len(res.Body) != 4<<20 {
					t.Error(err)
				}
				res.Close()
			})
		}
		all.Wait()
		if !turns.TryLock() {
			t.Error("a turn did not end")
		}
	})
}
