package fetch

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A memoryArchive keeps exchanges with their bodies.
type memoryArchive struct {
	dir  string
	room int // of a Spool; zero means as much as comes
	mu   sync.Mutex
	all  []kept // guarded by mu
}

type kept struct {
	Exchange
	body string
}

func (a *memoryArchive) Keep(x *Exchange) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, seek := x.Body.Seek(0, io.SeekStart)
	body, err := io.ReadAll(x.Body)
	if err = errors.Join(err, seek); err != nil || int64(len(body)) != x.Length {
		return err.Error()
	}
	a.all = append(a.all, kept{*x, string(body)})
	return "kept after " + x.Earlier
}

type tempSpool struct {
	*os.File
	room int
}

func (s tempSpool) Write(p []byte) (int, error) {
	if s.room > 0 {
		at, err := s.Seek(0, io.SeekCurrent)
		if room := s.room - int(at); room < len(p) {
			n, failed := s.File.Write(p[:room])
			return n, cmp.Or(err, failed, ErrNoRoom)
		}
	}
	return s.File.Write(p)
}

func (s tempSpool) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

func (a *memoryArchive) Spool() (Spool, error) {
	f, err := os.CreateTemp(a.dir, "spool")
	return tempSpool{f, a.room}, err
}

func (a *memoryArchive) last(t *testing.T) *kept {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		t.Fatal("nothing is archived")
	}
	return &a.all[len(a.all)-1]
}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// TestArchive compares what is archived with the bytes that a server sends.
func TestArchive(t *testing.T) {
	zipped := packed("<p>zipped")
	bomb := packed(strings.Repeat("0", 300<<10))
	long := strings.Repeat("x", 400<<10)
	for _, tt := range []struct {
		name, head, sent string
		mode             Mode
		body, truncated  string
		wrong            Kind
	}{
		{name: "page", head: okHead + "x-odd:  Value \r\nContent-Length: 4\r\n\r\n", sent: "good", body: "good"},
		{name: "not plain", head: okHead + "Pragma: x\r\nContent-Length: 4\r\n\r\n", sent: "good", body: "good"},
		{name: "chunked", head: okHead + "Transfer-Encoding: chunked\r\n\r\n", sent: "2\r\ngo\r\n2\r\nod\r\n0\r\n\r\n",
			body: "good"},
		{name: "zipped", head: okHead + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n", sent: zipped,
			body: zipped},
		{name: "image", head: "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\n\r\n",
			sent: long[:100<<10], body: long[:100<<10]},
		{name: "error page", head: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n", sent: "gone", body: "gone"},
		{name: "no body", head: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"},
		{name: "length over the limit", head: okHead + "Content-Length: 409600\r\n\r\n", sent: long, truncated: "length",
			wrong: TooLarge},
		{name: "over the limit", head: okHead + "Connection: close\r\n\r\n", sent: long,
			body: long[:128<<10+8<<10+64<<10], truncated: "length", wrong: TooLarge},
		{name: "unpacks to too much", head: okHead + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n", sent: bomb,
			body: bomb, wrong: TooLarge},
		{name: "broken off", head: okHead + "Content-Length: 9\r\nConnection: close\r\n\r\n", sent: "good", body: "good",
			truncated: "disconnect", wrong: ReadError},
		{name: "text", head: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", sent: "good", mode: Text, body: "good"},
		{name: "stream", head: okHead + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n", sent: zipped, mode: Stream,
			body: zipped},
		{name: "stream that is longer than a page", head: okHead + "Connection: close\r\n\r\n", sent: long, mode: Stream,
			body: long},
		{name: "stream that fails", head: okHead + "Content-Length: 9\r\n\r\n", sent: "good", mode: Stream, body: "good",
			truncated: "disconnect", wrong: ReadError},
		{name: "no stream", head: "HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\n", sent: "oops", mode: Stream, body: "oops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &memoryArchive{dir: t.TempDir()}
			u := mustURL(t, listen(t, answer("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+tt.head+tt.sent))+"/p?q")
			o := Options{Archive: a, MaxBody: 128 << 10, Header: http.Header{"Accept-Language": {"en"}},
				PrivateHeader: http.Header{"Cookie": {"secret"}, "X-Key": {"secret"}}}
			o.PrivateTo.AddURL(u)
			c := newClient(t, o)
			res, err := do(t, c, Request{URL: u, Mode: tt.mode, Archived: "earlier",
				Header: http.Header{"If-None-Match": {`"a"`}, "Authorization": {"secret"}}})
			if err == nil && res.Reader != nil {
				_, err = io.ReadAll(res.Reader)
			}
			if KindOf(err) != tt.wrong {
				t.Fatalf("error %v, want the kind %q", err, tt.wrong)
			}
			x := a.last(t)
			if string(x.Head) != tt.head || x.body != tt.body || x.Truncated != tt.truncated ||
				x.Status != res.Status || !x.Addr.IsLoopback() || x.URL != u {
				t.Errorf("head %q, body of %d bytes (want %d), truncated %q (want %q), %+v", x.Head, len(x.body),
					len(tt.body), x.Truncated, tt.truncated, x.Exchange.Addr)
			}
			if got := string(x.Request); !strings.HasPrefix(got, "GET /p?q HTTP/1.1\r\nHost: 127.0.0.1:") ||
				!strings.HasSuffix(got, "\r\n\r\n") || strings.Contains(got, "secret") ||
				!strings.Contains(got, "\r\nIf-None-Match: \"a\"\r\n") || !strings.Contains(got, "\r\nAccept-Language: en\r\n") {
				t.Errorf("request %q", got)
			}
			if res.Archived != "kept after earlier" || len(a.all) != 1 {
				t.Errorf("archived %q, %d exchanges", res.Archived, len(a.all))
			}
			if left, _ := filepath.Glob(filepath.Join(a.dir, "*")); len(left) > 0 {
				t.Errorf("files are left: %q", left)
			}
		})
	}
}

// TestArchiveHTTP2 archives an answer of HTTP/2 in the form of HTTP/1.1.
func TestArchiveHTTP2(t *testing.T) {
	s := newHTTP2Server(t, protoPage)
	a := &memoryArchive{}
	c := newClient(t, Options{RootCAs: poolOf(s), Archive: a})
	if _, err := get(t, c, s.URL+"/a"); err != nil {
		t.Fatal(err)
	}
	x := a.last(t)
	if !strings.HasPrefix(string(x.Head), "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(string(x.Head), "\r\n\r\n") ||
		!strings.Contains(string(x.Head), "Content-Type: text/html\r\n") || x.body != "HTTP/2.0" || x.Proto != "HTTP/2.0" ||
		!strings.HasPrefix(string(x.Request), "GET /a HTTP/1.1\r\nHost: 127.0.0.1:") {
		t.Errorf("%q %q %q %s", x.Request, x.Head, x.body, x.Proto)
	}
}

// TestArchiveCancelled cancels a request while a body comes that only the archive needs: it fails, because it is not
// archived.
func TestArchiveCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := &memoryArchive{}
	c := newClient(t, Options{Archive: a})
	u := listen(t, func(_ int, conn net.Conn) {
		readRequest(conn)
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 9\r\n\r\n1234"))
		cancel()
		readRequest(conn) // until the client closes it
	})
	res, err := c.Do(ctx, Request{URL: mustURL(t, u)})
	res.Close()
	if KindOf(err) != Canceled || len(a.all) > 0 {
		t.Errorf("%v, %d exchanges are archived", err, len(a.all))
	}
}

// TestArchiveStoppedStream closes a stream before its end: nothing more is read, and the record says so.
func TestArchiveStoppedStream(t *testing.T) {
	a := &memoryArchive{dir: t.TempDir()}
	c := newClient(t, Options{Archive: a})
	body := slices.Repeat([]byte("0123456789"), 100<<10)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL), Mode: Stream})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, res.Reader, 100); err != nil {
		t.Fatal(err)
	}
	res.Close()
	if x := a.last(t); x.Truncated != "unspecified" || len(x.body) == 0 || len(x.body) > len(body)/2 {
		t.Errorf("truncated %q, %d bytes", x.Truncated, len(x.body))
	}
}

// TestArchiveWithoutRoom reads a stream of which the archive keeps only a part: the caller has all of it.
func TestArchiveWithoutRoom(t *testing.T) {
	a := &memoryArchive{dir: t.TempDir(), room: 99_999}
	c := newClient(t, Options{Archive: a})
	body := slices.Repeat([]byte("0123456789"), 100<<10)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	res, err := c.Do(t.Context(), Request{URL: mustURL(t, s.URL), Mode: Stream})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, res.Reader); err != nil || n != int64(len(body)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	res.Close()
	if x := a.last(t); x.Truncated != "length" || x.body != string(body[:a.room]) {
		t.Errorf("truncated %q, %d bytes", x.Truncated, len(x.body))
	}
}

// If the Client keeps the cookies of answers, they are credentials, and no archive has them. Others are archived.
func TestArchiveWithoutSession(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nset-cookie : a=s3cret\r\nSet-Cookie: b=s3cret;\r\n " +
		"path=/s3cret\r\nContent-Length: 4\r\n\r\ngood"
	url := listen(t, answer(text))
	for _, keeps := range []bool{false, true} {
		archive, cookies := &memoryArchive{}, &Cookies{}
		if keeps {
			cookies.KeepAnswers()
		}
		c := newClient(t, Options{Archive: archive, Cookies: cookies})
		if _, err := get(t, c, url); err != nil {
			t.Fatal(err)
		}
		head := string(archive.last(t).Head)
		if strings.Contains(head, "s3cret") == keeps || !strings.HasSuffix(head, "Content-Length: 4\r\n\r\n") {
			t.Errorf("keeps cookies: %v, archived %q", keeps, head)
		}
	}
}
