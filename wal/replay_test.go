package wal

import (
	"errors"
	"runtime"
	"sync"
	"testing"
)

func TestReplayRange(t *testing.T) {
	l := mustOpen(t, newMemFS(), smallSegments)
	defer mustClose(t, l)
	for range 10 {
		mustAppend(t, l, make([]byte, 5000))
	}
	if err := l.TruncateBefore(4); err != nil {
		t.Fatal(err)
	}
	if l.First() != 3 {
		t.Fatalf("first is %d, want 3: two records fill a segment", l.First())
	}
	stop := errors.New("enough")
	tests := []struct {
		from LSN
		want int
		err  error
	}{
		{0, 8, nil}, {3, 8, nil}, {4, 7, nil}, {10, 1, nil}, {11, 0, nil},
		{1, 0, ErrOutOfRange}, {2, 0, ErrOutOfRange}, {12, 0, ErrOutOfRange},
	}
	for _, tt := range tests {
		n := 0
		err := l.Replay(tt.from, func(LSN, []byte) error { n++; return nil })
		if n != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("from %d: %d records, %v, want %d, %v", tt.from, n, err, tt.want, tt.err)
		}
	}
	if err := l.Replay(5, func(LSN, []byte) error { return stop }); err != stop {
		t.Errorf("error of fn came back as %v", err)
	}
}

// TestReplayStreams: replay needs memory for its window, not for the log.
func TestReplayStreams(t *testing.T) {
	l := mustOpen(t, newMemFS(), Options{SegmentSize: 32 << 20})
	defer mustClose(t, l)
	for i := range 16 {
		mustAppend(t, l, testRecord(i, 1<<20))
	}
	for range 10_000 {
		mustAppend(t, l, []byte("small"))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := l.Replay(0, func(LSN, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes allocated", got)
	}
}

// TestReplayBesideAppend reads again and again while others write and truncate.
func TestReplayBesideAppend(t *testing.T) {
	l := mustOpen(t, newMemFS(), Options{SegmentSize: 16 * pageSize})
	defer mustClose(t, l)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				if _, err := l.Append(testRecord(g*1000+i, i*7), testRecord(g, i)); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					if err := l.TruncateBefore(l.Last() - 20); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 50 {
		last := l.Last()
		var got LSN
		err := l.Replay(0, func(lsn LSN, _ []byte) error { got = lsn; return nil })
		if err != nil && !errors.Is(err, ErrOutOfRange) || err == nil && got < last {
			t.Errorf("replay to %d, last was %d, %v", got, last, err)
		}
	}
	wg.Wait()
}

// TestTruncateAll: the last segment stays, and with it the numbering.
func TestTruncateAll(t *testing.T) {
	fs := newMemFS()
	for opening := range 3 {
		l := mustOpen(t, fs, smallSegments)
		for range 5 {
			mustAppend(t, l, make([]byte, 5000))
		}
		if err := l.TruncateBefore(1 << 60); err != nil {
			t.Fatal(err)
		}
		if want := LSN(5 * (opening + 1)); l.Last() != want || l.First() != want || l.Stats().Segments != 1 {
			t.Errorf("opening %d: %d to %d in %d segments", opening, l.First(), l.Last(), l.Stats().Segments)
		}
		mustClose(t, l)
	}
}

// TestEmptySegmentKeepsNumbering: a log whose only segment lost its only batch
// goes on with the number that batch had.
func TestEmptySegmentKeepsNumbering(t *testing.T) {
	fs := newMemFS()
	l := mustOpen(t, fs, smallSegments)
	for range 4 {
		mustAppend(t, l, make([]byte, 5000))
	}
	mustAppend(t, l, []byte("alone"))
	if err := l.TruncateBefore(5); err != nil {
		t.Fatal(err)
	}
	files := fs.snapshot()
	mustClose(t, l)
	name := segmentPath(testDir, 5)
	if len(files) != 1 || files[name] == nil {
		t.Fatalf("%d segments", len(files))
	}
	files[name][headerSize]++
	fs = memFSOf(files)
	l = mustOpen(t, fs, smallSegments)
	if l.Recovery() == nil || l.First() != 5 || l.Last() != 4 {
		t.Errorf("%d to %d, %v", l.First(), l.Last(), l.Recovery())
	}
	if recs, err := contents(l); err != nil || len(recs) > 0 {
		t.Errorf("%d records, %v", len(recs), err)
	}
	if lsn, err := l.Append([]byte("again")); lsn != 5 || err != nil {
		t.Errorf("append gave %d, %v", lsn, err)
	}
	mustClose(t, l)
}

// TestRemovalsStayInOrder: a process is killed between removing a segment and
// making that durable; the next one must not let its own removal overtake it.
func TestRemovalsStayInOrder(t *testing.T) {
	fs := newMemFS()
	l := mustOpen(t, fs, smallSegments)
	b := &book{}
	for range 8 {
		if err := b.append(l, 5000); err != nil {
			t.Fatal(err)
		}
	}
	fs.failAt(2, fault{down: true})
	if err := b.truncate(l, 3); err == nil {
		t.Fatal("not killed")
	}
	_ = l.Close()
	fs = fs.kill()
	l = mustOpen(t, fs, smallSegments)
	fs.failAt(2, fault{down: true})
	if err := b.truncate(l, 5); err == nil {
		t.Fatal("not down")
	}
	_ = l.Close()
	for _, op := range fs.dirOps {
		if op.remove == segmentPath(testDir, 1) {
			t.Error("the first removal is still not durable")
		}
	}
}
