package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// model is what must be true of a log that many goroutines write and that is
// crashed, killed and opened again.
type model struct {
	rng *rand.Rand

	mu        sync.Mutex
	submitted map[uint64][]byte // every record ever handed to Append, by its id
	durable   map[LSN]uint64    // ids of records that were acknowledged or recovered
	cut       LSN               // records before it may be gone
}

// TestCrashModel is random. A failure prints the seed; WAL_SEED runs it again,
// though goroutines may take other turns, and WAL_ROUNDS runs it for longer.
func TestCrashModel(t *testing.T) {
	seed := envNumber(t, "WAL_SEED", uint64(time.Now().UnixNano()))
	rounds := envNumber(t, "WAL_ROUNDS", 200/stride)
	for round := range rounds {
		m := &model{
			rng:       rand.New(rand.NewPCG(seed, round)),
			submitted: map[uint64][]byte{},
			durable:   map[LSN]uint64{},
			cut:       1,
		}
		fs := newMemFS()
		for opening := range 6 {
			next, err := m.live(fs)
			if err != nil {
				t.Fatalf("seed %d, round %d, opening %d: %v", seed, round, opening, err)
			}
			fs = next
		}
	}
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// live opens the log, checks it, uses it until something goes wrong or not,
// and returns the machine as the next Open finds it.
func (m *model) live(fs *memFS) (*memFS, error) {
	o := Options{
		FS:          fs,
		SegmentSize: int64(2+m.rng.IntN(20)) * pageSize,
	}
	switch m.rng.IntN(4) {
	case 0:
		fs.failAt(1+m.rng.IntN(300), fault{err: syscall.EIO})
	case 1:
		fs.failAt(1+m.rng.IntN(300), fault{err: syscall.ENOSPC, short: true})
	case 2:
		fs.failAt(1+m.rng.IntN(300), fault{down: true})
	}
	l, err := Open(testDir, o)
	switch {
	case damaged(err):
		return nil, err
	case err == nil:
		if err := m.check(l); err != nil {
			_ = l.Close()
			return nil, err
		}
		m.use(l)
		if m.rng.IntN(3) > 0 {
			fs.crash(m.rng, loseAll) // for its effect on fs: Close fails
		}
		_ = l.Close()
	}
	if m.rng.IntN(3) == 0 {
		return fs.kill(), nil
	}
	return fs.crash(m.rng, loss(m.rng.IntN(5))), nil
}

// check compares the log with the model. What Open recovered is durable.
func (m *model) check(l *Log) error {
	found := map[LSN]uint64{}
	ids := map[uint64]bool{}
	lsn := l.First()
	recs, err := contents(l)
	if err != nil {
		if damaged(err) {
			return err
		}
		return nil // an injected fault
	}
	for _, rec := range recs {
		id := binary.LittleEndian.Uint64(rec)
		if ids[id] || !bytes.Equal(rec, m.submitted[id]) {
			return fmt.Errorf("record %d, id %d, was never written or is there twice", lsn, id)
		}
		ids[id] = true
		found[lsn] = id
		lsn++
	}
	for lsn, id := range m.durable {
		if got, ok := found[lsn]; (ok || lsn >= m.cut) && got != id {
			return fmt.Errorf("record %d is id %d, want %d; log has %d to %d", lsn, got, id, l.First(), l.Last())
		}
	}
	m.durable = found
	return nil
}

// use appends from several goroutines, with truncations between.
func (m *model) use(l *Log) {
	var wg sync.WaitGroup
	for range 1 + m.rng.IntN(6) {
		seed := m.rng.Uint64()
		wg.Go(func() { m.appendSome(l, rand.New(rand.NewPCG(seed, 0))) })
	}
	wg.Wait()
}

func (m *model) appendSome(l *Log, rng *rand.Rand) {
	for range rng.IntN(20) {
		var recs [][]byte
		var ids []uint64
		m.mu.Lock()
		for range 1 + rng.IntN(4) {
			id := uint64(len(m.submitted))
			rec := append(binary.LittleEndian.AppendUint64(nil, id), testRecord(int(id), rng.IntN(1<<rng.IntN(14)))...)
			m.submitted[id] = rec
			recs, ids = append(recs, rec), append(ids, id)
		}
		m.mu.Unlock()
		lsn, err := l.Append(recs...)
		if err != nil {
			return
		}
		m.mu.Lock()
		for i, id := range ids {
			m.durable[lsn-LSN(len(ids)-1-i)] = id
		}
		var cut LSN
		if rng.IntN(10) == 0 {
			cut = LSN(rng.Uint64N(uint64(lsn) + 1))
			m.cut = max(m.cut, cut)
		}
		m.mu.Unlock()
		if cut > 0 && l.TruncateBefore(cut) != nil {
			return
		}
	}
}
