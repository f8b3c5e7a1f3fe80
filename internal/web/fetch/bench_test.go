package fetch

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// rawServer answers every request on a connection with the same bytes, as cheaply
// as Go can, so that a benchmark measures the client.
func rawServer(tb testing.TB, contentType, body string) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nContent-Length: " +
		itoa(len(body)) + "\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nServer: raw\r\n\r\n" + body)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					if strings.HasSuffix(string(buf[:n]), "\r\n\r\n") {
						if _, err := conn.Write(answer); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	tb.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// benchPage is a page of about 10 KB.
func benchPage() string {
	return "<!doctype html><title>bench</title>" +
		strings.Repeat(`<p>Some text and <a href="/page/17">a link</a> in it.</p>`, 180)
}

type countingWire struct{ started atomic.Int64 }

func (w *countingWire) Reach(netip.Addr) error { return nil }

func (w *countingWire) Start() error {
	w.started.Add(1)
	return nil
}

// BenchmarkDo compares Do with the barest loop over net/http that reads a body.
// Both figures hold the server's share, which is the same.
func BenchmarkDo(b *testing.B) {
	const workers = 16
	base := rawServer(b, "text/html; charset=utf-8", benchPage())
	run := func(b *testing.B, get func() error) {
		b.ReportAllocs()
		b.SetParallelism(workers / runtime.GOMAXPROCS(0))
		before := testweb.CPUTime()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := get(); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(testweb.CPUTime()-before)/float64(b.N), "cpu-ns/op")
	}
	b.Run("client=net-http", func(b *testing.B) {
		tr := &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}
		defer tr.CloseIdleConnections()
		client := &http.Client{Transport: tr}
		run(b, func() error {
			res, err := client.Get(base + "/page/17")
			if err != nil {
				return err
			}
			defer res.Body.Close()
			_, err = io.Copy(io.Discard, res.Body)
			return err
		})
	})
	// The crawl's context can end; one that cannot costs nothing to watch.
	ending, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
	}{{"client=fetch/context=none", context.Background()}, {"client=fetch/context=cancel", ending}} {
		b.Run(tt.name, func(b *testing.B) {
			c := newClient(b, Options{MaxIdlePerHost: workers})
			u := mustURL(b, base+"/page/17")
			wire := &countingWire{}
			run(b, func() error {
				res, err := c.Do(tt.ctx, Request{URL: u, Wire: wire})
				res.Close()
				return err
			})
		})
	}
}

// BenchmarkDoTLS is BenchmarkDo over TLS, with HTTP/1.1 and HTTP/2, one at a time.
// The server's share is larger here.
func BenchmarkDoTLS(b *testing.B) {
	page := benchPage()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", itoa(len(page)))
		_, _ = io.WriteString(w, page)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for _, http1 := range []bool{true, false} {
		b.Run("http="+map[bool]string{true: "1", false: "2"}[http1], func(b *testing.B) {
			c := newClient(b, Options{RootCAs: poolOf(s), NoHTTP2: http1})
			u := mustURL(b, s.URL)
			b.ReportAllocs()
			for b.Loop() {
				res, err := c.Do(context.Background(), Request{URL: u})
				res.Close()
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkToUTF8 shows the cost of a page that is UTF-8 already, and one that is not.
func BenchmarkToUTF8(b *testing.B) {
	c, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for name, page := range map[string]struct{ contentType, body string }{
		"utf-8":     {"text/html; charset=utf-8", benchPage() + "é"},
		"meta":      {"text/html", `<meta charset="utf-8">` + benchPage() + "é"},
		"ascii":     {"text/html", benchPage()},
		"latin":     {"text/html; charset=iso-8859-1", benchPage() + "\xe9"},
		"shift_jis": {"text/html; charset=shift_jis", benchPage() + "\x93\xfa"},
	} {
		b.Run("page="+name, func(b *testing.B) {
			b.SetBytes(int64(len(page.body)))
			b.ReportAllocs()
			body := []byte(page.body)
			k := &call{parent: context.Background()}
			for b.Loop() {
				out := Response{buffers: c.buffers, memory: holding{share: c.account}}
				out.buffer = c.buffers.get(&out.memory)
				out.buffer.b = append(out.buffer.b, body...)
				if _, _, err := c.toUTF8(k, &out, page.contentType); err != nil {
					b.Fatal(err)
				}
				out.Close()
			}
		})
	}
}
