package urlqueue

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// put stores a discovered URL and returns what became of it.
func put(t *testing.T, s *Store, key, url string) Status {
	t.Helper()
	var got [1]Status
	ticket, err := s.Put([]Item{{Crawl: []byte("c"), Key: []byte(key), URL: []byte(url)}}, got[:])
	if err != nil || s.Wait(ticket) != nil {
		t.Fatal(err)
	}
	return got[0]
}

// TestConcurrent: goroutines put, take, list and delete queues while the log is cleaned. Every URL is taken once.
func TestConcurrent(t *testing.T) {
	s := openAt(t, t.TempDir(), Options{MinFree: -1, SegmentSize: 64 << 10})
	if err := s.SetDefaultDelay(0); err != nil {
		t.Fatal(err)
	}
	const writers, each = 3, 150
	var mu sync.Mutex
	got := map[string]int{}
	var writing, working sync.WaitGroup
	stop, tick := make(chan struct{}), make(chan struct{}) // a put lets one of the others go on
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if st := put(t, s, fmt.Sprint("k", i%7), fmt.Sprintf("http://a/%d/%d", w, i)); st != OK {
					t.Errorf("put is %v", st)
				}
				put(t, s, "gone", fmt.Sprintf("http://b/%d/%d", w, i))
				select {
				case tick <- struct{}{}:
				default:
				}
			}
		})
	}
	until := func(fn func() error) {
		working.Go(func() {
			for {
				if err := fn(); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				case <-tick:
				}
			}
		})
	}
	take := func() error {
		return s.Take(Wanted{AnyCrawl: true, MaxQueues: 3, MaxURLs: math.MaxInt, Hold: time.Hour}, func(u URL) error {
			mu.Lock()
			defer mu.Unlock()
			if u.Key != "gone" {
				got[string(u.Text)]++
			}
			return nil
		})
	}
	until(take)
	until(take)
	until(func() error { return s.List("c", "", func(URL) error { return nil }) })
	until(func() error {
		_, err := s.DeleteQueue("c", "gone")
		s.Stats("c", "")
		return err
	})
	writing.Wait()
	close(stop)
	working.Wait()
	for len(got) < writers*each {
		before := len(got)
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if len(got) == before {
			t.Fatalf("%d URLs were taken, want %d", len(got), writers*each)
		}
	}
	for url, n := range got {
		if n != 1 {
			t.Errorf("%s was taken %d times", url, n)
		}
	}
}

// Puts fail, and may be sent again, while the disk has too little space. URLs can still be taken.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, Options{MinFree: -1})
	if st := put(t, s, "k", "http://a/"); st != OK {
		t.Fatalf("put is %v", st)
	}
	s.full.Store(true)
	if st := put(t, s, "k", "http://b/"); st != Failed {
		t.Errorf("put on a full disk is %v", st)
	}
	n := 0
	if err := s.Take(Wanted{AnyCrawl: true, MaxQueues: 1, MaxURLs: 9, Hold: time.Minute}, func(URL) error {
		n++
		return nil
	}); err != nil || n != 1 {
		t.Errorf("took %d URLs, %v", n, err)
	}
}

// failingFS is the file system of the operating system, until it fails: then no file can be synced.
type failingFS struct {
	wal.FS
	failed atomic.Bool
}

type failingFile struct {
	wal.File
	fs *failingFS
}

func (fs *failingFS) Create(name string) (wal.File, error) {
	f, err := fs.FS.Create(name)
	return failingFile{f, fs}, err
}

func (f failingFile) Sync() error {
	if f.fs.failed.Load() {
		return syscall.EIO
	}
	return f.File.Sync()
}

// A disk that fails ends the store: nothing is acknowledged any more, and all that was acknowledged is there when the
// directory is opened again.
func TestFailingDisk(t *testing.T) {
	dir, fs := t.TempDir(), &failingFS{FS: wal.OS()}
	said := make(chan error, 2)
	s, err := Open(dir, Options{MinFree: -1, Failed: func(err error) { said <- err }, fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	if st := put(t, s, "k", "http://a/"); st != OK {
		t.Fatalf("put is %v", st)
	}
	fs.failed.Store(true)
	ticket, err := s.Put([]Item{{Crawl: []byte("c"), Key: []byte("k"), URL: []byte("http://b/")}}, make([]Status, 1))
	if err == nil {
		err = s.Wait(ticket)
	}
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("a put that was not synced: %v", err)
	}
	if err := <-said; !errors.Is(err, syscall.EIO) {
		t.Errorf("the program was told %v", err)
	}
	status := []Status{OK}
	if _, err := s.Put([]Item{{Crawl: []byte("c"), Key: []byte("k"), URL: []byte("http://c/")}}, status); err == nil ||
		status[0] != Failed {
		t.Errorf("a later put is %v, %v", status[0], err)
	}
	if err := s.Take(Wanted{AnyCrawl: true, MaxQueues: 1, MaxURLs: 1, Hold: time.Minute}, func(URL) error {
		return errors.New("a URL was given")
	}); !errors.Is(err, syscall.EIO) {
		t.Errorf("take: %v", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	s = openAt(t, dir, Options{MinFree: -1})
	if err := s.Find("c", "k", []byte("http://a/"), func(URL) error { return nil }); err != nil {
		t.Errorf("the URL that was acknowledged: %v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := openAt(t, dir, Options{MinFree: -1})
	var locked *disk.LockedError
	if _, err := Open(dir, Options{}); !errors.As(err, &locked) {
		t.Errorf("a directory that is open was opened: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(make([]Item, 1), make([]Status, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("put after Close: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, formatName), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("a directory with a damaged secret was opened")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other, Options{}); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a directory of others was opened: %v", err)
	}
}

// A URL that cannot be stored is skipped, and one that can be is kept whatever its bytes are.
func TestOddURLs(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, Options{MinFree: -1})
	long := string(make([]rune, 300))
	for url, want := range map[string]Status{"": Skipped, "a\x00": Skipped, "a": OK, "ä \n%zz": OK, long: Skipped} {
		if got := put(t, s, "k", url); got != want {
			t.Errorf("put of %.20q is %v, want %v", url, got, want)
		}
	}
	if got := put(t, s, string(make([]byte, maxKey+1)), "http://a/"); got != Skipped {
		t.Errorf("put with a long key is %v", got)
	}
	// The limits of dates: no overflow makes them due.
	items := []Item{{Crawl: []byte("c"), Key: []byte("k"), URL: []byte("far"), Known: true, Refetch: math.MaxUint64}}
	if _, err := s.Put(items, make([]Status, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Block("c", "k", math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, Options{MinFree: -1})
	if err := s.Take(Wanted{AnyCrawl: true, MaxQueues: 9, MaxURLs: 9, Hold: time.Minute}, func(u URL) error {
		return fmt.Errorf("%s was given by a queue that is blocked", u.Text)
	}); err != nil {
		t.Error(err)
	}
	if err := s.Block("c", "k", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Find("c", "k", []byte("far"), func(u URL) error {
		if u.Refetch != math.MaxUint64 {
			t.Errorf("the date is %d", u.Refetch)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	n := 0
	if err := s.Take(Wanted{AnyCrawl: true, MaxQueues: 9, MaxURLs: 9, Hold: time.Minute}, func(URL) error {
		n++
		return nil
	}); err != nil || n != 2 {
		t.Errorf("took %d URLs, want 2: %v", n, err)
	}
}
