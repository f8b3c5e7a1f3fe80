package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestReopening opens, uses and closes a log several times on the real file system.
func TestReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	seen := map[LSN][]byte{}
	var mu sync.Mutex
	for opening := range 3 {
		l, err := Open(dir, Options{SegmentSize: 32 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if l.Recovery() != nil || int(l.Last()) != len(seen) {
			t.Fatalf("opening %d: recovery %v, last %d, want %d", opening, l.Recovery(), l.Last(), len(seen))
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 10 {
					a, b := testRecord(opening*1000+g*100+i, 100), testRecord(opening*1000+g*100+i, 3000)
					lsn, err := l.Append(a, b)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					seen[lsn-1], seen[lsn] = a, b
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		recs, err := contents(l)
		if err != nil || len(recs) != len(seen) {
			t.Fatalf("opening %d: %d records, want %d, %v", opening, len(recs), len(seen), err)
		}
		for i, rec := range recs {
			if !bytes.Equal(rec, seen[LSN(i+1)]) {
				t.Fatalf("opening %d: record %d differs", opening, i+1)
			}
		}
		mustClose(t, l)
	}
}

// TestOneFsync: the records of a call share one fsync.
func TestOneFsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		l := mustOpen(t, fs, Options{})
		mustAppend(t, l, []byte("first")) // makes the segment
		fs.syncTime = 10 * time.Millisecond
		start := time.Now()
		mustAppend(t, l, []byte("one"))
		mustAppend(t, l, make([][]byte, 64)...)
		if d := time.Since(start); d != 20*time.Millisecond {
			t.Errorf("two calls took %v, want two fsyncs, 20ms", d)
		}
		s := l.Stats()
		if s.Batches != 3 || s.SyncTotal != 20*time.Millisecond {
			t.Errorf("stats %+v", s)
		}
		mustClose(t, l)
	})
}

// TestCloseBesideAppend: Close waits for the call of Append that is under way,
// and refuses those that come after it.
func TestCloseBesideAppend(t *testing.T) {
	for range 50 {
		fs := newMemFS()
		l := mustOpen(t, fs, Options{SegmentSize: 8 * pageSize})
		var wg sync.WaitGroup
		var acked atomic.Int64
		some := make(chan struct{}, 1000)
		for range 4 {
			wg.Go(func() {
				for {
					_, err := l.Append([]byte("a"), []byte("b"))
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("append: %v", err)
						}
						return
					}
					acked.Add(2)
					some <- struct{}{}
				}
			})
		}
		for range 10 {
			<-some
		}
		go func() {
			for range some {
				continue
			}
		}()
		mustClose(t, l)
		wg.Wait()
		close(some)
		if int64(l.Last()) != acked.Load() {
			t.Errorf("last is %d, %d were acknowledged", l.Last(), acked.Load())
		}
		again := mustOpen(t, fs, Options{})
		if recs, err := contents(again); err != nil || len(recs) != int(l.Last()) || again.Recovery() != nil {
			t.Errorf("%d records of %d, %v, recovery %v", len(recs), l.Last(), err, again.Recovery())
		}
		mustClose(t, again)
	}
}

// TestAppendRange: what one call appends has consecutive numbers.
func TestAppendRange(t *testing.T) {
	l := mustOpen(t, newMemFS(), Options{})
	defer mustClose(t, l)
	if lsn, err := l.Append(); lsn != 0 || err != nil {
		t.Errorf("nothing appended: %d, %v", lsn, err)
	}
	if lsn, err := l.Append(nil, []byte("b"), []byte("c")); lsn != 3 || err != nil {
		t.Errorf("three appended: %d, %v", lsn, err)
	}
	if lsn, err := l.Append(); lsn != 3 || err != nil {
		t.Errorf("nothing more appended: %d, %v", lsn, err)
	}
	if _, err := l.Append(make([]byte, MaxRecordSize+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if lsn, err := l.Append([]byte("d")); lsn != 4 || err != nil {
		t.Errorf("after a refusal: %d, %v", lsn, err)
	}
}

// TestOpenChangesNothing: a log that was closed can be looked at without a
// trace.
func TestOpenChangesNothing(t *testing.T) {
	s := makeSample(t, true)
	fs := memFSOf(s.files)
	l := mustOpen(t, fs, Options{})
	if recs, err := contents(l); err != nil || len(recs) != len(s.recs) {
		t.Errorf("%d records, %v", len(recs), err)
	}
	mustClose(t, l)
	if fs.touched() {
		t.Error("files were changed")
	}
}

func TestClosed(t *testing.T) {
	l := mustOpen(t, newMemFS(), Options{})
	mustAppend(t, l, []byte("x"))
	mustClose(t, l)
	mustClose(t, l)
	if _, err := l.Append([]byte("y")); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := l.Replay(0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("replay: %v", err)
	}
	if err := l.TruncateBefore(1); !errors.Is(err, ErrClosed) {
		t.Errorf("truncate: %v", err)
	}
	if l.Last() != 1 {
		t.Errorf("last is %d", l.Last())
	}
}

// TestFailedForGood: the call whose fsync failed gets the error, so do those that
// wait behind it, and what was durable can still be read.
func TestFailedForGood(t *testing.T) {
	fs := newMemFS()
	l := mustOpen(t, fs, Options{})
	mustAppend(t, l, []byte("good"))
	fs.fault = func(_ int, op, _ string) fault {
		if op == "sync" && l.Stats().Batches == 2 {
			return fault{err: syscall.EIO}
		}
		return fault{}
	}
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for range 20 {
		wg.Go(func() {
			_, err := l.Append(make([]byte, 100))
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	good := 0
	for err := range errs {
		if err == nil {
			good++
		} else if !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v", err)
		}
	}
	if good != 1 || l.Last() != 2 {
		t.Errorf("%d appended, last is %d", good, l.Last())
	}
	if recs, err := contents(l); err != nil || len(recs) != 2 {
		t.Errorf("%d records, %v", len(recs), err)
	}
	for range 2 {
		if err := l.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
	}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	temp, foreign := segmentPath(dir, 1)+".tmp", filepath.Join(dir, "notes.txt")
	for _, name := range []string{temp, foreign, filepath.Join(dir, "1.wal")} {
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left over: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("not ours: %v", err)
	}
}

func TestReserved(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("x"))
	size := func() int64 {
		st, err := os.Stat(segmentPath(dir, 1))
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	if size() != 1<<20 || l.Size() != 2*pageSize {
		t.Errorf("file has %d bytes, log says %d", size(), l.Size())
	}
	mustClose(t, l)
	if size() != 3*pageSize {
		t.Errorf("closed file has %d bytes", size())
	}
}

func TestOptions(t *testing.T) {
	_, err := Open(t.TempDir(), Options{SegmentSize: 1})
	if err == nil || !strings.Contains(err.Error(), "segment size 1") {
		t.Errorf("got %v", err)
	}
	o, err := Options{SegmentSize: 10_000}.validate()
	if err != nil || o.SegmentSize != 12288 || o.FS == nil {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestOpenNotADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "sub")} {
		if l, err := Open(dir, Options{}); err == nil {
			l.Close()
			t.Errorf("opened %s", dir)
		}
	}
}

func ExampleLog() {
	dir, err := os.MkdirTemp("", "wal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	l, err := Open(dir, Options{})
	if err != nil {
		panic(err)
	}
	if torn := l.Recovery(); torn != nil {
		fmt.Println("warning:", torn)
	}
	lsn, err := l.Append([]byte("one"), []byte("two"))
	if err != nil {
		panic(err)
	}
	fmt.Println("durable up to", lsn)
	if err := l.Replay(1, func(lsn LSN, rec []byte) error {
		fmt.Printf("%d %s\n", lsn, rec)
		return nil
	}); err != nil {
		panic(err)
	}
	if err := l.Close(); err != nil {
		panic(err)
	}
	// Output:
	// durable up to 2
	// 1 one
	// 2 two
}
