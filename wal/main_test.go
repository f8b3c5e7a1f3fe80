package wal

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	debug.SetGCPercent(800) // tests make little garbage, many times
	goleak.VerifyTestMain(m)
}

const testDir = "log"

// testRecord returns n bytes that no other id or size has the like of.
func testRecord(id, n int) []byte {
	b := make([]byte, n)
	x := uint32(id)*2654435761 + uint32(n)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func mustOpen(t testing.TB, fs FS, o Options) *Log {
	t.Helper()
	o.FS = fs
	l, err := Open(testDir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustAppend(t testing.TB, l *Log, recs ...[]byte) {
	t.Helper()
	if _, err := l.Append(recs...); err != nil {
		t.Fatal(err)
	}
}

// contents replays the whole log, checking that LSNs have no gaps.
func contents(l *Log) (recs [][]byte, err error) {
	next := l.First()
	err = l.Replay(0, func(lsn LSN, rec []byte) error {
		if lsn != next {
			return fmt.Errorf("record %d came when %d was due", lsn, next)
		}
		next++
		recs = append(recs, bytes.Clone(rec))
		return nil
	})
	if err == nil && next != l.Last()+1 {
		err = fmt.Errorf("replay ended before record %d, last is %d", next, l.Last())
	}
	return recs, err
}

// book is what a test knows about a log that one goroutine writes.
type book struct {
	written [][]byte // written[i] is record i+1
	acked   LSN      // last record that Append said is durable
	cut     LSN      // all records from here on must be kept
}

// check compares a log that was just opened with the book, which is then
// brought up to date: what Open found is durable.
func (b *book) check(l *Log) error {
	recs, err := contents(l)
	first, last := l.First(), l.Last()
	switch {
	case err != nil:
		return err
	case last < b.acked:
		return fmt.Errorf("last is %d, but %d was acknowledged", last, b.acked)
	case int(last) > len(b.written):
		return fmt.Errorf("last is %d, but only %d were written", last, len(b.written))
	case first > max(b.cut, 1):
		return fmt.Errorf("first is %d, but the log was only cut before %d", first, b.cut)
	}
	for i, rec := range recs {
		if lsn := int(first) + i; !bytes.Equal(rec, b.written[lsn-1]) {
			return fmt.Errorf("record %d is not what was written", lsn)
		}
	}
	b.written = b.written[:last]
	b.acked = last
	return nil
}

func (b *book) clone() *book {
	c := *b
	return &c
}

func (b *book) append(l *Log, sizes ...int) error {
	var recs [][]byte
	for _, n := range sizes {
		recs = append(recs, testRecord(len(b.written)+len(recs), n))
	}
	// A full slice expression, since clones of the book share the array.
	b.written = append(b.written[:len(b.written):len(b.written)], recs...)
	lsn, err := l.Append(recs...)
	if err != nil {
		if _, again := l.Append(recs...); again == nil || again.Error() != err.Error() {
			return fmt.Errorf("append failed with %w and then gave %w", err, again)
		}
		return err
	}
	if int(lsn) != len(b.written) {
		return fmt.Errorf("append gave LSN %d, want %d", lsn, len(b.written))
	}
	b.acked = lsn
	return nil
}

func (b *book) truncate(l *Log, lsn LSN) error {
	b.cut = max(b.cut, lsn)
	return l.TruncateBefore(lsn)
}

func corrupt(err error) bool {
	var c *CorruptError
	return errors.As(err, &c)
}

// damaged reports whether err is one of the two that change nothing.
func damaged(err error) bool {
	var v *VersionError
	return corrupt(err) || errors.As(err, &v)
}
