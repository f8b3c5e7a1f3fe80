package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

var smallSegments = Options{SegmentSize: 4 * pageSize}

// script is a short use of a log with everything in it: batches within a page
// and over several, rotation, truncation, a clean end and another beginning.
// It ends at the first error.
func script(fs FS, b *book) error {
	o := smallSegments
	o.FS = fs
	for range 2 {
		l, err := Open(testDir, o)
		if err != nil {
			return err
		}
		err = scriptLife(l, b)
		if cerr := l.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func scriptLife(l *Log, b *book) error {
	if err := b.check(l); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	for _, sizes := range [][]int{{10}, {0, 700}, {5000}, {100, 4000, 300}, {9000}, {1}} {
		if err := b.append(l, sizes...); err != nil {
			return err
		}
	}
	if err := b.truncate(l, b.acked-2); err != nil {
		return err
	}
	return b.append(l, 2000, 2000)
}

// countSteps tells how many calls run makes that can be hit.
func countSteps(t *testing.T, fs *memFS, run func(*memFS) error) int {
	t.Helper()
	fs.failAt(0, fault{})
	if err := run(fs); err != nil {
		t.Fatal(err)
	}
	return fs.stepCount()
}

// TestCrashAnywhere takes the machine down at every call that the script makes
// to the file system, then again at every call of the recovery that follows.
func TestCrashAnywhere(t *testing.T) {
	steps := countSteps(t, newMemFS(), func(fs *memFS) error { return script(fs, &book{}) })
	rng := rand.New(rand.NewPCG(1, 2))
	losses := []loss{loseAll, loseNone, loseSome, loseOne, loseSuffix}
	for n := 1; n <= steps; n += crashStride {
		fs, b := newMemFS(), &book{}
		fs.failAt(n, fault{down: true})
		if err := script(fs, b); err == nil {
			t.Fatalf("step %d: the crash was not noticed", n)
		}
		for _, how := range losses {
			l, err := openSmall(fs.crash(rng, how))
			if err == nil {
				err = b.clone().check(l)
				_ = l.Close()
			}
			if err != nil {
				t.Fatalf("step %d, loss %d: %v", n, how, err)
			}
		}
		how := losses[n%len(losses)]
		recoverAnywhere(t, fmt.Sprintf("step %d, loss %d", n, how), rng, fs.crash(rng, how), b)
		recoverAnywhere(t, fmt.Sprintf("step %d, killed", n), rng, fs.kill(), b)
	}
}

// recoverAnywhere opens what a crash left, with a second crash at every step.
func recoverAnywhere(t *testing.T, name string, rng *rand.Rand, left *memFS, b *book) {
	t.Helper()
	for n := 1; ; n++ {
		fs, c := left.clone(), b.clone()
		fs.failAt(n, fault{down: true})
		l, err := openSmall(fs)
		if err == nil {
			if err := liveOn(l, fs, c, rng); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return
		}
		fs = fs.crash(rng, []loss{loseAll, loseSome, loseSuffix}[rng.IntN(3)])
		l, err = openSmall(fs)
		if err != nil {
			t.Fatalf("%s, recovery step %d: %v", name, n, err)
		}
		if err := c.check(l); err != nil {
			t.Fatalf("%s, recovery step %d: %v", name, n, err)
		}
		mustClose(t, l)
	}
}

// liveOn checks a recovered log, loses the power, and uses what is left.
func liveOn(l *Log, fs *memFS, b *book, rng *rand.Rand) error {
	fs.failAt(0, fault{})
	if err := b.check(l); err != nil {
		return err
	}
	fs2 := fs.crash(rng, loseAll)
	_ = l.Close()
	if l, err := openSmall(fs2); err != nil {
		return fmt.Errorf("after a second power loss: %w", err)
	} else if l.Recovery() != nil {
		return fmt.Errorf("after a second power loss: %w", l.Recovery())
	} else if err := b.check(l); err != nil {
		return fmt.Errorf("after a second power loss: %w", err)
	} else if err := b.append(l, 50, 5000); err != nil {
		return err
	} else if err := l.Close(); err != nil {
		return err
	}
	l, err := openSmall(fs2)
	if err != nil {
		return fmt.Errorf("after more records: %w", err)
	}
	if err := b.check(l); err != nil {
		return fmt.Errorf("after more records: %w", err)
	}
	return l.Close()
}

func openSmall(fs FS) (*Log, error) {
	o := smallSegments
	o.FS = fs
	return Open(testDir, o)
}

// TestFaultAnywhere lets every call in turn fail once. The log must stop, stay
// stopped, and have all that it acknowledged when it is opened again, be it
// from what the kernel still has in memory or from what the disk really got.
func TestFaultAnywhere(t *testing.T) {
	steps := countSteps(t, newMemFS(), func(fs *memFS) error { return script(fs, &book{}) })
	rng := rand.New(rand.NewPCG(3, 4))
	faults := map[string]fault{
		"EIO":         {err: syscall.EIO},
		"ENOSPC":      {err: syscall.ENOSPC},
		"short write": {err: syscall.ENOSPC, short: true},
		"silent":      {short: true},
	}
	for name, f := range faults {
		for n := 1; n <= steps; n += crashStride {
			fs, b := newMemFS(), &book{}
			fs.failAt(n, f)
			err := script(fs, b)
			if damaged(err) {
				t.Errorf("%s at step %d: taken for damage: %v", name, n, err)
			}
			fs.failAt(0, fault{})
			for _, next := range []*memFS{fs.clone().kill(), fs.crash(rng, loseSome), fs.crash(rng, loseAll)} {
				c := b.clone()
				l, err := openSmall(next)
				if err != nil {
					t.Fatalf("%s at step %d: open: %v", name, n, err)
				}
				if err := liveOn(l, next, c, rng); err != nil {
					t.Fatalf("%s at step %d: %v", name, n, err)
				}
			}
		}
	}
}

// TestFullDisk fills disks of many sizes. Each time the log stops, is opened
// again while the disk is still full, and goes on when there is space.
func TestFullDisk(t *testing.T) {
	for capacity := 3 * pageSize; capacity < 12*pageSize; capacity += 1000 {
		fs, b := newMemFS(), &book{}
		fs.capacity = capacity
		l := mustOpen(t, fs, smallSegments)
		var err error
		for i := 0; err == nil; i++ {
			err = b.append(l, 1000+i*700%6000)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("capacity %d: %v", capacity, err)
		}
		if err := l.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("capacity %d: close: %v", capacity, err)
		}
		for _, more := range []int{0, 0, 10 * pageSize} {
			fs.capacity += more
			l := mustOpen(t, fs, smallSegments)
			if err := b.check(l); err != nil {
				t.Fatalf("capacity %d: %v", capacity, err)
			}
			if err := b.append(l, 3000); more > 0 && err != nil || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("capacity %d: %v", capacity, err)
			}
			_ = l.Close()
		}
	}
}
