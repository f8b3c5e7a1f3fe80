package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func compress(t testing.TB, name, text string) string {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	switch name {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "zlib":
		w = zlib.NewWriter(&buf)
	case "flate":
		w, _ = flate.NewWriter(&buf, 6)
	case "br":
		w = brotli.NewWriter(&buf)
	case "zstd":
		w, _ = zstd.NewWriter(&buf)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestDecoding(t *testing.T) {
	page := "<title>compressed</title>" + strings.Repeat("<p>again and again</p>", 1000)
	tests := []struct {
		name, encoding, body string
		want                 string
		kind                 Kind
	}{
		{"none", "", page, page, ""},
		{"identity", "identity", page, page, ""},
		{"gzip", "gzip", compress(t, "gzip", page), page, ""},
		{"x-gzip in capitals", "X-GZIP", compress(t, "gzip", page), page, ""},
		{"br", "br", compress(t, "br", page), page, ""},
		{"zstd", "zstd", compress(t, "zstd", page), page, ""},
		{"deflate", "deflate", compress(t, "zlib", page), page, ""},
		{"deflate without a header", "deflate", compress(t, "flate", page), page, ""},
		{"two", "gzip, br", compress(t, "br", compress(t, "gzip", page)), page, ""},
		{"too many", "gzip, gzip, gzip, gzip", compress(t, "gzip",
			compress(t, "gzip", compress(t, "gzip", compress(t, "gzip", page)))), "", ReadError},
		{"a little that is much between compressions", "deflate, gzip, gzip", compress(t, "gzip", compress(t, "gzip",
			strings.Repeat("\x00\x00\x00\xff\xff", 1<<20)+"\x01\x00\x00\xff\xff")), "", TooLarge},
		{"unknown", "rot13", page, page, ""},
		{"not gzip after all", "gzip", page, page, ""},
		{"empty gzip", "gzip", "", "", ""},
		{"empty br", "br", "", "", ""},
		{"gzip with something after it", "gzip", compress(t, "gzip", page) + "\x00\x00\x00", page, ""},
		{"two members of gzip", "gzip", compress(t, "gzip", page) + compress(t, "gzip", page), page + page, ""},
		{"gzip breaks off", "gzip", compress(t, "gzip", page)[:40], "", ReadError},
		{"br breaks off", "br", compress(t, "br", page)[:20], "", ReadError},
		{"zstd breaks off", "zstd", compress(t, "zstd", page)[:20], "", ReadError},
		{"deflate breaks off", "deflate", compress(t, "zlib", page)[:20], "", ReadError},
		{"bad br", "br", strings.Repeat("\xff", 30), "", ReadError},
		{"bad zstd", "zstd", "no such thing", "", ReadError},
		{"gzip with a bad sum", "gzip", compress(t, "gzip", page)[:len(compress(t, "gzip", page))-8] + "00000000", "",
			ReadError},
	}
	// The pools are used twice over, so that what one body left behind would show in
	// the next.
	c := newClient(t, Options{})
	for round := range 2 {
		for _, tt := range tests {
			for _, mode := range []Mode{Page, Text, Stream} {
				t.Run(fmt.Sprintf("%s/mode=%d/round=%d", tt.name, mode, round), func(t *testing.T) {
					s := serve(t, func(w http.ResponseWriter, r *http.Request) {
						if got := r.Header.Get("Accept-Encoding"); got != "gzip, br, zstd, deflate" {
							t.Errorf("Accept-Encoding %q", got)
						}
						w.Header().Set("Content-Type", "text/html; charset=utf-8")
						if tt.encoding != "" {
							w.Header().Set("Content-Encoding", tt.encoding)
						}
						_, _ = io.WriteString(w, tt.body)
					})
					res, err := do(t, c, Request{URL: mustURL(t, s.URL), Mode: mode})
					var body []byte
					if err == nil {
						body = res.Body
					}
					if err == nil && mode == Stream {
						body, err = io.ReadAll(res.Reader)
					}
					if KindOf(err) != tt.kind {
						t.Fatalf("error %v, want %q", err, tt.kind)
					}
					if err == nil && string(body) != tt.want {
						t.Errorf("%d bytes, want %d", len(body), len(tt.want))
					}
					if err == nil && (res.WireBytes != int64(len(tt.body)) ||
						res.DecodedLength != int64(len(tt.want))) {
						t.Errorf("%d bytes came and %d were read, want %d and %d", res.WireBytes, res.DecodedLength,
							len(tt.body), len(tt.want))
					}
				})
			}
		}
	}
}

// zeros is a reader of n zero bytes.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// TestBomb downloads small bodies that unpack to 128 MiB, and counts what that
// costs.
func TestBomb(t *testing.T) {
	const limit, whole = 2 << 20, 1 << 27
	pack := map[string]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed); return z },
		"zstd": func(w io.Writer) io.WriteCloser {
			z, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
			return z
		},
	}
	for name, open := range pack {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			z := zeros(whole / 16)
			w := open(&packed)
			if _, err := io.Copy(w, &z); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			bomb := bytes.Repeat(packed.Bytes(), 16) // members and frames may follow one another
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Encoding", name)
				_, _ = w.Write(bomb)
			})
			c := newClient(t, Options{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res, err := do(t, c, Request{URL: mustURL(t, s.URL), MaxBody: limit})
			runtime.ReadMemStats(&after)
			if KindOf(err) != TooLarge || res.Body != nil {
				t.Errorf("%v, want it too large", err)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 32<<20 {
				t.Errorf("cost %d MiB of memory", cost>>20)
			}
			text, err := do(t, c, Request{URL: mustURL(t, s.URL), Mode: Text, MaxBody: limit})
			if err != nil || len(text.Body) != limit || !text.Truncated {
				t.Errorf("text: %d bytes, truncated %v, %v", len(text.Body), text.Truncated, err)
			}
			stream, err := do(t, c, Request{URL: mustURL(t, s.URL), Mode: Stream, MaxBody: limit})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, stream.Reader); n != limit || KindOf(err) != TooLarge {
				t.Errorf("stream: %d bytes, %v", n, err)
			}
		})
	}
}

// TestUnwanted checks what becomes of bodies that are not read: small ones are
// drained and their connection serves again, large ones are left.
func TestUnwanted(t *testing.T) {
	tests := []struct {
		name        string
		status      int
		contentType string
		size        int
		chunked     bool
		reused      bool
	}{
		{"small image", 200, "image/png", 1000, false, true},
		{"small image without a length", 200, "image/png", 1000, true, true},
		{"large image", 200, "image/png", 10 << 20, false, false},
		{"large image without a length", 200, "image/png", 10 << 20, true, false},
		{"redirect with a page", 302, "text/html", 1000, false, true},
		{"missing page", 404, "text/html", 5000, false, true},
		{"missing page, endless", 404, "text/html", 10 << 20, true, false},
		{"no content", 204, "", 0, false, true},
		{"not modified", 304, "", 0, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sent atomic.Int64
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				if !tt.chunked && tt.size > 0 {
					w.Header().Set("Content-Length", itoa(tt.size))
				}
				w.WriteHeader(tt.status)
				for left := tt.size; left > 0; {
					n, err := w.Write(make([]byte, min(left, 4096)))
					sent.Add(int64(n))
					if err != nil {
						return
					}
					left -= n
				}
			})
			c := newClient(t, Options{})
			for i := range 2 {
				res, err := get(t, c, s.URL)
				if err != nil || res.Status != tt.status || res.Body != nil {
					t.Fatalf("%+v, %v", res, err)
				}
				if res.WireBytes > 2*drainLimit {
					t.Errorf("%d bytes were read", res.WireBytes)
				}
				if i == 1 && res.Reused != tt.reused {
					t.Errorf("connection used again: %v, want %v", res.Reused, tt.reused)
				}
			}
		})
	}
}

func TestContentType(t *testing.T) {
	tests := []struct {
		header, body, want string
		read               bool
	}{
		{"text/html", "x", "text/html", true},
		{"Text/HTML ; Charset=UTF-8", "x", "text/html", true},
		{"application/xhtml+xml", "x", "application/xhtml+xml", true},
		{"application/pdf", "%PDF-", "application/pdf", false},
		{"-", "  <!DOCTYPE HTML><p>x", "text/html", true},
		{"-", "<html>" + strings.Repeat("x", 100000), "text/html", true},
		{"-", "%PDF-1.4", "application/pdf", false},
		{"-", "plain words", "text/plain", false},
		{"-", "", "", false},
	}
	c := newClient(t, Options{})
	for _, tt := range tests {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if tt.header != "-" {
				w.Header().Set("Content-Type", tt.header)
			}
			_, _ = io.WriteString(w, tt.body)
		})
		res, err := get(t, c, s.URL)
		if err != nil || res.ContentType != tt.want || (res.Body != nil) != tt.read || tt.read &&
			string(res.Body) != tt.body {
			t.Errorf("%q %.20q: type %q, body %.20q, %v; want %q, read %v", tt.header, tt.body, res.ContentType,
				res.Body, err, tt.want, tt.read)
		}
	}
}

// TestStreamClose leaves a stream in the middle.
func TestStreamClose(t *testing.T) {
	gone := make(chan struct{})
	url := listen(t, func(_ int, c net.Conn) {
		defer close(gone)
		readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := c.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	res, err := do(t, newClient(t, Options{}), Request{URL: mustURL(t, url), Mode: Stream})
	if err != nil {
		t.Fatal(err)
	}
	r := res.Reader
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	res.Close()
	res.Close()
	<-gone
	if _, err := r.Read(make([]byte, 100)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after Close: %v", err)
	}
}

// TestStreamCanceled ends a call whose body has come as a whole, but not yet out of its
// compression.
func TestStreamCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, _ = z.Write(make([]byte, 4<<20))
		_ = z.Close()
		c := newClient(t, Options{Resolver: always("8.8.8.8")})
		pipeTo(t, c, func(c net.Conn) {
			readRequest(c)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s",
				zipped.Len(), &zipped)
		})
		ctx, cancel := context.WithCancel(t.Context())
		res, err := c.Do(ctx, Request{URL: mustURL(t, "http://a.example/"), Mode: Stream})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Close()
		if _, err := io.ReadFull(res.Reader, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		for range 2 {
			if n, err := io.Copy(io.Discard, res.Reader); n > 0 || KindOf(err) != Canceled {
				t.Errorf("%d bytes more, then %v", n, err)
			}
		}
	})
}

// TestStreamOfNothing asks for a stream and gets an error page.
func TestStreamOfNothing(t *testing.T) {
	s := serve(t, http.NotFound)
	res, err := do(t, newClient(t, Options{}), Request{URL: mustURL(t, s.URL), Mode: Stream})
	if err != nil || res.Status != 404 || res.Reader != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestBodiesAreApart fetches many pages at once and holds on to them, so that a
// buffer given out twice would show.
func TestBodiesAreApart(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 500+len(r.URL.Path)*40))
	})
	c := newClient(t, Options{MaxIdlePerHost: 8})
	errs := make(chan error, 8)
	for w := range 8 {
		go func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d/%d", w, i)
				res, err := c.Do(context.Background(), Request{URL: mustURL(t, s.URL+path)})
				if err == nil && string(res.Body) != strings.Repeat(path, 500+len(path)*40) {
					err = fmt.Errorf("body of %s is another's", path)
				}
				res.Close()
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestBodiesHeldAtOnce holds the answers of one connection until the last has come: none may
// lie in memory that a later one was read into.
func TestBodiesHeldAtOnce(t *testing.T) {
	const n = 8
	bodyOf := func(path string) string { return strings.Repeat("<p>"+path+"</p>", 200) }
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body := bodyOf(r.URL.Path)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
	})
	c := newClient(t, Options{AllowPrivate: true})
	var held []*Response
	for range 2 { // the second time in memory that was given back
		for i := range n {
			res, err := get(t, c, fmt.Sprintf("%s/%d", s.URL, i))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, res)
		}
		for i, res := range held {
			want := bodyOf(fmt.Sprintf("/%d", i))
			if string(res.Body) != want || res.DecodedLength != int64(len(want)) || res.WireBytes != int64(len(want)) {
				t.Errorf("answer %d: %d bytes, %d of them decoded and %d on the wire, want %d", i, len(res.Body),
					res.DecodedLength, res.WireBytes, len(want))
			}
			res.Close()
		}
		held = held[:0]
	}
	if n := c.Stats().Dials; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
