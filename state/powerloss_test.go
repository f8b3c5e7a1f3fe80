package state

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/test/long"
)

const pageSize = 4096

// TestPowerLoss makes what a machine may find after it lost power: of all that
// was written to memtables and value logs since Badger was last made durable,
// each page is there or is not; new files are whole, torn, empty or missing;
// deleted ones are gone or back; and the log has a torn tail.
func TestPowerLoss(t *testing.T) {
	long.Test(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	root := t.TempDir()
	dir := root + "/store"
	c := startChild(t, "append", dir, seed)
	acked := atoi(t, c.line())
	images := 0
	for c.stop(); images < 5; {
		before, after, image := root+"/before", root+"/after", root+"/image"
		copyDir(t, dir, before)
		c.resume()
		for range 1 + rng.IntN(15) {
			acked = atoi(t, c.line())
		}
		c.stop()
		copyDir(t, dir, after)
		// If Badger was made durable in between, the pages of before may not
		// come back.
		if sameFile(t, before, after, badgerDir+"/"+syncedName) {
			images++
			losePower(t, rng, before, after, image)
			s, err := Open(image, small())
			if err != nil {
				t.Fatal(err)
			}
			m := modelAfter(t, s, seed)
			if m.n < acked {
				t.Errorf("%d records, %d were durable", m.n, acked)
			}
			m.check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range []string{before, after, image} {
			if err := os.RemoveAll(d); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func sameFile(t *testing.T, a, b, name string) bool {
	t.Helper()
	x, errX := os.ReadFile(filepath.Join(a, name))
	y, errY := os.ReadFile(filepath.Join(b, name))
	if errors.Is(errX, os.ErrNotExist) && errors.Is(errY, os.ErrNotExist) {
		return true
	}
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// losePower makes image of what the disk held before and after.
func losePower(t *testing.T, rng *rand.Rand, before, after, image string) {
	t.Helper()
	copyDir(t, after, image)
	names := map[string]bool{}
	for _, d := range []string{before, after} {
		entries, err := os.ReadDir(filepath.Join(d, badgerDir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".mem" || ext == ".vlog" {
				names[badgerDir+"/"+e.Name()] = true
			}
		}
	}
	for name := range names {
		old, errOld := os.ReadFile(filepath.Join(before, name))
		now, errNow := os.ReadFile(filepath.Join(after, name))
		target := filepath.Join(image, name)
		var b []byte
		switch {
		case errNow != nil: // deleted; perhaps it is back
			if rng.IntN(2) == 0 {
				continue
			}
			b = old
		case errOld != nil: // new
			switch rng.IntN(5) {
			case 0:
				if err := os.Remove(target); err != nil {
					t.Fatal(err)
				}
				continue
			case 1: // empty
			case 2:
				b = now[:rng.IntN(len(now)+1)]
			default:
				b = mixPages(rng, make([]byte, len(now)), now)
			}
		default:
			b = mixPages(rng, old, now)
		}
		if err := os.WriteFile(target, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if rng.IntN(2) == 0 {
		tearLog(t, rng, filepath.Join(image, walDir))
	}
}

// mixPages takes each page from one or the other, or all from some point on
// from the old one.
func mixPages(rng *rand.Rand, old, now []byte) []byte {
	size := len(now)
	if rng.IntN(2) == 0 {
		size = len(old)
	}
	b := make([]byte, size)
	copy(b, old)
	cut := rng.IntN(size + 1)
	lose := []int{2, 10, 100}[rng.IntN(3)] // one page in so many
	for at := 0; at < size; at += pageSize {
		if at < cut && rng.IntN(lose) > 0 && at < len(now) {
			copy(b[at:min(at+pageSize, size)], now[at:])
		}
	}
	return b
}

// tearLog writes half a batch after the last one in the newest segment.
func tearLog(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var newest string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), disk.TempSuffix) {
			newest = max(newest, e.Name())
		}
	}
	path := filepath.Join(dir, newest)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(b)
	if i := slices.IndexFunc(reversed(b), func(c byte) bool { return c != 0 }); i >= 0 {
		end = len(b) - i
	}
	end = (end + pageSize - 1) / pageSize * pageSize
	for i := end; i < min(end+rng.IntN(3*pageSize), len(b)); i++ {
		b[i] = byte(rng.Uint32())
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func reversed(b []byte) []byte {
	b = bytes.Clone(b)
	slices.Reverse(b)
	return b
}
