package wal

import (
	"fmt"
	"sync"
	"testing"
)

func TestAppendReopenReplay(t *testing.T) {
	dir := t.TempDir()
	want := 0
	for life := range 4 {
		l, err := Open(dir, Options{SegmentSize: 32 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if l.Recovery() != nil || l.Last() != LSN(want) {
			t.Fatalf("life %d: recovery %v, last %d, want %d", life, l.Recovery(), l.Last(), want)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if _, err := l.Append(make([]byte, 100), make([]byte, 3000)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		want += 320
		n := 0
		if err := l.Replay(0, func(lsn LSN, b []byte) error {
			n++
			if lsn != LSN(n) {
				return fmt.Errorf("lsn %d, want %d", lsn, n)
			}
			return nil
		}); err != nil || n != want {
			t.Fatalf("replayed %d, want %d: %v", n, want, err)
		}
		if life == 3 {
			if err := l.TruncateBefore(600); err != nil {
				t.Fatal(err)
			}
			if f := l.First(); f > 600 || f < 500 {
				t.Errorf("first %d", f)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
