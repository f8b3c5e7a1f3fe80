package warc

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/test/warctest"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// answered is an exchange that was answered with 200.
func answered(path, body string) *fetch.Exchange {
	return &fetch.Exchange{URL: weburl.MustCanonical("https://x.test" + path), Began: time.Unix(1700000000, 123456789),
		Addr: netip.MustParseAddr("192.0.2.1"), Request: []byte("GET " + path + " HTTP/1.1\r\nHost: x.test\r\n\r\n"),
		Head: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-odd:  kept\r\nContent-Length: %d\r\n\r\n", len(body)), Status: 200,
		Proto: "HTTP/1.1", Body: strings.NewReader(body), Length: int64(len(body))}
}

func open(t *testing.T, o Options) *Writer {
	t.Helper()
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warc")
	w := open(t, Options{Dir: dir, Software: "Test/1", Info: []string{"robots", "classic", "operator", ""}})
	first := w.Keep(answered("/", "hello"))
	cut := answered("/cut", "hel")
	cut.Truncated, cut.Proto = "length", "HTTP/2.0"
	w.Keep(cut)
	chunked := answered("/chunked", "joined")
	chunked.Head = []byte("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nContent-Type: text/html\r\n\r\n")
	w.Keep(chunked)
	large := strings.Repeat("large ", smallBody/4)
	w.Keep(answered("/large", large))
	closed(t, w)
	closed(t, w)

	all := warctest.ReadDir(t, dir)
	if len(all) != 9 {
		t.Fatalf("%d records", len(all))
	}
	if got := string(all[0].Block); !strings.Contains(got, "software: Test/1\r\n") ||
		!strings.Contains(got, "robots: classic\r\n") || strings.Contains(got, "operator") {
		t.Errorf("warcinfo %q", got)
	}
	name, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(name) != 1 || all[0].Header.Get("WARC-Filename") != filepath.Base(name[0]) || !IsName(filepath.Base(name[0])) {
		t.Errorf("files %q, and warcinfo says %q", name, all[0].Header.Get("WARC-Filename"))
	}
	r := &all[1]
	if r.Type != "response" || r.URL != "https://x.test/" || string(r.Body) != "hello" ||
		r.Header.Get("WARC-Date") != "2023-11-14T22:13:20.123456Z" || r.Header.Get("WARC-IP-Address") != "192.0.2.1" ||
		!bytes.Contains(r.Block, []byte("X-odd:  kept\r\n")) || r.Header.Get("WARC-Truncated") != "" {
		t.Errorf("response %+v", r)
	}
	if q := &all[2]; q.Type != "request" || q.Header.Get("WARC-Concurrent-To") != r.Header.Get("WARC-Record-ID") ||
		string(q.Block) != "GET / HTTP/1.1\r\nHost: x.test\r\n\r\n" {
		t.Errorf("request %+v", q)
	}
	if c := &all[3]; c.Header.Get("WARC-Truncated") != "length" || c.Header.Get("WARC-Protocol") != "h2" {
		t.Errorf("truncated %+v", c.Header)
	}
	c := &all[5]
	if string(c.Body) != "joined" || c.Answer.ContentLength != 6 || len(c.Answer.TransferEncoding) > 0 ||
		c.Answer.Header.Get("X-Crawler-Transfer-Encoding") != "chunked" {
		t.Errorf("chunked: %q", c.Block)
	}
	if string(all[7].Body) != large {
		t.Errorf("large: %d bytes", len(all[7].Body))
	}

	// A later visit.
	w = open(t, Options{Dir: dir})
	same := answered("/", "hello")
	same.Earlier, same.Began = first, same.Began.Add(time.Hour)
	if got := w.Keep(same); got != first {
		t.Errorf("reference %q after a revisit, want %q", got, first)
	}
	still := answered("/", "")
	still.Earlier, still.Status, still.Head = first, 304, []byte("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
	if got := w.Keep(still); got != first {
		t.Errorf("reference %q after 304, want %q", got, first)
	}
	other := answered("/", "changed")
	other.Earlier = first
	if got := w.Keep(other); got == first {
		t.Error("a changed body has the earlier reference")
	}
	closed(t, w)
	all = warctest.ReadDir(t, dir)[10:]
	for i, want := range []struct{ kind, profile string }{{"revisit", sameBody}, {"revisit", notModified},
		{"response", ""}} {
		r := &all[2*i]
		if r.Type != want.kind || r.Header.Get("WARC-Profile") != want.profile {
			t.Errorf("record %d is %s %s", i, r.Type, r.Header.Get("WARC-Profile"))
		}
		if want.profile == "" {
			continue
		}
		date, digest, _ := strings.Cut(first, " ")
		if r.Header.Get("WARC-Refers-To-Target-URI") != "https://x.test/" || len(r.Body) > 0 ||
			(len(r.Block) == 0) != (want.profile == notModified) || r.Header.Get("WARC-Refers-To-Date") != date ||
			r.Header.Get("WARC-Payload-Digest") != digest {
			t.Errorf("revisit %d: %+v", i, r.Header)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir, MaxSize: 4096, Machine: "a machine/1"})
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() { w.Keep(answered(fmt.Sprint("/", i), fmt.Sprint("body ", i))) })
	}
	group.Wait()
	closed(t, w)
	found := map[string]int{}
	for _, r := range warctest.ReadDir(t, dir) {
		found[r.Type+" "+r.URL]++
	}
	if len(found) != 81 {
		t.Errorf("%d kinds of records, want warcinfo and 40 pairs", len(found))
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) < 3 {
		t.Errorf("%d files", len(paths))
	}
	for i, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Size() > 4096 || info.Mode().Perm() != 0o600 ||
			serialOf(filepath.Base(path)) != i+1 || !strings.HasSuffix(path, "-a_machine_1.warc.gz") {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// TestTornEnd cuts a file that is open at many places of its last records, as a kill or a crash of the system does.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	w.Keep(answered("/1", "one"))
	whole := w.size
	w.Keep(answered("/2", "two"))
	text, err := os.ReadFile(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(w.file.Name())
	closed(t, w)
	for size := whole; size < int64(len(text)); size += 23 {
		dir := t.TempDir()
		cut := append(bytes.Clone(text[:size]), "\x00\x00\x00"[:size%4]...) // a crash may leave zeros
		for file, content := range map[string][]byte{name: cut, "spool-1.tmp": nil, "of the user": nil} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w := open(t, Options{Dir: dir})
		w.Keep(answered("/3", "three"))
		closed(t, w)
		var urls []string
		for _, r := range warctest.ReadDir(t, dir) {
			if r.Type == "response" {
				urls = append(urls, r.URL[len("https://x.test"):])
			}
		}
		if got := strings.Join(urls, " "); got != "/1 /3" && got != "/1 /2 /3" {
			t.Fatalf("cut at %d of %d: %s", size, len(text), got)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 3 {
			t.Fatalf("cut at %d: files %q", size, left)
		}
	}
}

// TestFailure lets a write fail: the file stays as it was, nothing more is written, and the error is kept.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	w.Keep(answered("/1", "one"))
	bad := answered("/2", strings.Repeat("two", smallBody))
	bad.Body = io.NewSectionReader(strings.NewReader("short"), 0, 5)
	if got := w.Keep(bad); got != "" || w.Err() == nil {
		t.Errorf("reference %q, error %v", got, w.Err())
	}
	if got := w.Keep(answered("/3", "three")); got != "" {
		t.Errorf("reference %q after an error", got)
	}
	if w.Close() == nil || w.Sync() == nil {
		t.Error("no error at the end")
	}
	if all := warctest.ReadDir(t, dir); len(all) != 3 {
		t.Errorf("%d records", len(all))
	}

	w = open(t, Options{Dir: filepath.Join(dir, "missing", "parent")})
	if _, err := w.Spool(); err == nil || w.Err() == nil {
		t.Errorf("Spool: %v, Err: %v", err, w.Err())
	}
}

// The temporary files of a Writer have a bound together, and leave room when they are closed.
func TestSpooledTogether(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	defer w.Close()
	piece := make([]byte, mostSpooled/8)
	var spools []fetch.Spool
	for i := range 4 {
		s, err := w.Spool()
		if err != nil {
			t.Fatal(err)
		}
		spools = append(spools, s)
		for range 2 {
			if n, err := s.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("file %d: %d bytes, %v", i, n, err)
			}
		}
	}
	if n, err := spools[2].Write([]byte{1}); n != 0 || err != fetch.ErrNoRoom {
		t.Errorf("one byte more: %d, %v", n, err)
	}
	if err := spools[0].Close(); err != nil {
		t.Error(err)
	}
	if n, err := spools[1].Write(piece); n != len(piece) || err != nil {
		t.Errorf("after one was closed: %d bytes, %v", n, err)
	}
	for _, s := range spools[1:] {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || w.Err() != nil || w.spooled.Load() != 0 {
		t.Errorf("%d files and %d bytes are left, %v, %v", len(left), w.spooled.Load(), err, w.Err())
	}
}

// Nothing is written to temporary files while too little of the disk is free, and again when there is enough.
func TestSpoolsLeaveSpace(t *testing.T) {
	const least = 100 << 20
	var free atomic.Int64
	free.Store(least + 2*lookEvery)
	w := open(t, Options{Dir: t.TempDir(), Space: disk.Space{Min: least, Free: func(string) (int64, error) {
		return free.Load(), nil
	}}})
	defer w.Close()
	s, err := w.Spool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	piece := make([]byte, 1<<20)
	written := 0
	for ; err == nil && written < mostSpooled; written += len(piece) {
		if _, err = s.Write(piece); err == nil {
			free.Add(-int64(len(piece)))
		}
	}
	if err != fetch.ErrNoRoom || free.Load() < least {
		t.Errorf("%d bytes are left, %v", free.Load(), err)
	}
	if _, err := s.Write(piece[:1]); err != fetch.ErrNoRoom {
		t.Errorf("one byte more: %v", err)
	}
	free.Store(least + 2*lookEvery)
	if _, err := s.Write(piece[:1]); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
