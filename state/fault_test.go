package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/wal"
)

// A faultyFS is the operating system's file system with a switch that makes
// writes and syncs fail.
type faultyFS struct{ err atomic.Pointer[error] }

func (f *faultyFS) fault() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *faultyFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

func (f *faultyFS) ReadDir(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f *faultyFS) Create(name string) (wal.File, error) {
	file, err := os.Create(name)
	return faultyFile{file, f}, err
}

func (f *faultyFS) Open(name string, write bool) (wal.File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	file, err := os.OpenFile(name, flag, 0)
	return faultyFile{file, f}, err
}

func (f *faultyFS) Rename(from, to string) error { return os.Rename(from, to) }
func (f *faultyFS) Remove(name string) error     { return os.Remove(name) }
func (f *faultyFS) SyncDir(string) error         { return nil }

type faultyFile struct {
	*os.File
	fs *faultyFS
}

func (f faultyFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f faultyFile) Preallocate(size int64) error { return f.Truncate(size) }

func (f faultyFile) Sync() error {
	if err := f.fs.fault(); err != nil {
		return err
	}
	return f.File.Sync()
}

// TestLogFails makes the log fail under a store: every call says so from then
// on, and the directory opens again with all that was durable.
func TestLogFails(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() + "/store"
	o := small()
	fs := &faultyFS{}
	o.Log.FS = fs
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(5)
	for range 100 {
		commit(t, s, m.record())
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	fault := error(syscall.EIO)
	fs.err.Store(&fault)
	if _, err := s.Commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: "lost",
		Value: []byte("?")}}}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, syscall.EIO, s.Flush(ctx), "flush")
	_, err = s.Commit(frontier.Record{})
	wantErr(t, syscall.EIO, err, "commit")
	wantErr(t, syscall.EIO, s.Ready(ctx), "ready")
	wantErr(t, syscall.EIO, s.Checkpoint(ctx, func(*SnapshotWriter) error { return nil }), "checkpoint")
	wantErr(t, syscall.EIO, s.Close(), "close")
	wantErr(t, syscall.EIO, s.Close(), "close again")

	s = open(t, dir, small())
	if !s.Recovery().Unclean {
		t.Error("the end was not unclean")
	}
	run := s.Facts()
	if run["lost"] != nil {
		// It was written, if not synced, and then it counts.
		m.facts["lost"] = []byte("?")
	}
	m.check(t, s)
}

// untilFlush are options of a store that writes nothing before Flush or Close, on a disk with so many free bytes.
func untilFlush() (o Options, free *atomic.Int64) {
	free = new(atomic.Int64)
	free.Store(1 << 30)
	o = still()
	o.BatchRecords, o.BatchDelay, o.MinFree = 1000, time.Hour, 1<<20
	o.FreeBytes = func(string) (int64, error) { return free.Load(), nil }
	return o, free
}

// TestDiskFull lets the disk fill up: the store stops before Badger meets it,
// and what was committed until then is in the log.
func TestDiskFull(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() + "/store"
	o, free := untilFlush()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(6)
	for i := range 100 {
		if i == 50 {
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		r := m.record()
		if _, err := s.Commit(r); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(1 << 19)
	wantErr(t, ErrDiskFull, s.Flush(ctx), "flush")
	_, err = s.Commit(frontier.Record{})
	wantErr(t, ErrDiskFull, err, "commit")
	wantErr(t, ErrDiskFull, s.Close(), "close")

	before := readTree(t, dir)
	_, err = Open(dir, o)
	wantErr(t, ErrDiskFull, err, "open with a full disk")
	if changed := differs(before, readTree(t, dir)); changed != "" {
		t.Errorf("a full disk was refused, and %s changed", changed)
	}
	free.Store(1 << 30)
	s = open(t, dir, o)
	if r := s.Recovery(); r.Unclean {
		t.Errorf("recovery after a full disk: %+v; the log had room for the end of the run", r)
	}
	m.check(t, s)
}

// A disk without any space leaves the directory locked, until Reclaim finds space. Then the same process opens it.
func TestReclaim(t *testing.T) {
	dir := t.TempDir() + "/store"
	o, free := untilFlush()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(7)
	for range 50 {
		commit(t, s, m.record())
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := s.Commit(m.record()); err != nil {
			t.Fatal(err)
		}
	}
	free.Store(0)
	wantErr(t, ErrDiskFull, s.Flush(t.Context()), "flush")
	wantErr(t, ErrDiskFull, s.Close(), "close")
	wantErr(t, ErrDiskFull, s.Reclaim(), "reclaim with a full disk")
	free.Store(1 << 30)
	if _, err := Open(dir, o); !isLocked(err) {
		t.Errorf("opened before it was reclaimed: %v", err)
	}
	for range 2 { // again does nothing
		if err := s.Reclaim(); err != nil {
			t.Fatal(err)
		}
	}
	m.check(t, open(t, dir, o))
}

func isLocked(err error) bool {
	_, locked := errors.AsType[*LockedError](err)
	return locked
}

// TestInterruptedRecovery breaks recovery off after each of its transactions in
// turn, and begins it again.
func TestInterruptedRecovery(t *testing.T) {
	long.Test(t)
	dir := t.TempDir() + "/store"
	s, err := Open(dir, still())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(13)
	for range 600 {
		commit(t, s, m.record())
	}
	if r, ok := low(t, s, m.hasher.HostID("h5.example")); ok {
		commit(t, s, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := still()
	o.MinFree = 1
	broken := 0
	for {
		// Without SYNCED all of the log is applied again.
		try := fmt.Sprintf("%s-%d", dir, broken)
		copyDir(t, dir, try)
		if err := os.Remove(filepath.Join(try, badgerDir, syncedName)); err != nil {
			t.Fatal(err)
		}
		left := broken
		o.FreeBytes = func(string) (int64, error) {
			if left--; left < 0 {
				return 0, nil
			}
			return 1 << 40, nil
		}
		s, err := Open(try, o)
		if err == nil {
			if err := s.Close(); !errors.Is(err, ErrDiskFull) && err != nil {
				t.Fatal(err)
			}
			break
		}
		wantErr(t, ErrDiskFull, err, "open")
		broken++
		s, err = Open(try, still())
		if err != nil {
			t.Fatal(err)
		}
		m.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if broken < 3 {
		t.Errorf("recovery had %d transactions, too few for this test", broken)
	}
}

// TestCloseOnAFullDisk fills the disk while a store is open. Close does not let
// Badger write, and the next process finds all in the log.
func TestCloseOnAFullDisk(t *testing.T) {
	dir := t.TempDir() + "/store"
	var free atomic.Int64
	free.Store(1 << 30)
	o := small()
	o.MinFree = 1 << 20
	o.FreeBytes = func(string) (int64, error) { return free.Load(), nil }
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(6)
	for range 50 {
		commit(t, s, m.record())
	}
	free.Store(0)
	wantErr(t, ErrDiskFull, s.Close(), "close")
	if s.view.db.IsClosed() {
		t.Error("Badger was closed, which writes its memtable")
	}
	_, err = Open(dir, o)
	wantErrAs[*LockedError](t, err)
	// As the end of the process does.
	again := dir + "-again"
	copyDir(t, dir, again)
	if err := errors.Join(s.access.close(s.view), s.lock.Release()); err != nil {
		t.Error(err)
	}
	m.check(t, open(t, again, small()))
}

// TestBadgerLogsError checks that an error which Badger only logs fails the
// store.
func TestBadgerLogsError(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", small())
	if err != nil {
		t.Fatal(err)
	}
	s.view.db.Opts().Logger.Errorf("Error while curlf sync: %v\n", syscall.EIO)
	if _, err := s.Commit(frontier.Record{}); err == nil {
		t.Error("the store goes on")
	}
	if err := s.Close(); err == nil {
		t.Error("Close says nothing")
	}
}

// TestHalfFiles leaves behind what a kill in the middle of Badger's making or
// deleting of a file does, which Badger itself would refuse to open.
func TestHalfFiles(t *testing.T) {
	dir := t.TempDir() + "/store"
	c := startChild(t, "append", dir, 7)
	for range 20 {
		c.line()
	}
	acked := c.kill(0)
	for _, name := range []string{"00000.mem", "09999.mem", "000000.vlog", "009999.vlog", "DISCARD"} {
		if err := os.WriteFile(filepath.Join(dir, badgerDir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, small())
	m := modelAfter(t, s, 7)
	if m.n < acked {
		t.Errorf("%d records, %d were durable", m.n, acked)
	}
	m.check(t, s)
}

// TestSmallerMemtables opens a store that was killed with smaller memtables
// than it was written with.
func TestSmallerMemtables(t *testing.T) {
	long.Test(t)
	dir := t.TempDir() + "/store"
	o := still()
	o.MemTableSize = 16 << 20
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	const links = 16_000
	var r frontier.Record
	for i := range uint64(links) {
		r.Links = append(r.Links, frontier.Link{Key: key(i), URL: mustURL("https://a.example/")})
	}
	commit(t, s, r)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	copyDir(t, dir, dir+"2")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range open(t, dir+"2", small()).Keys(t.Context(), 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != links {
		t.Errorf("%d links, want %d", n, links)
	}
}

// TestDamagedTable flips a byte in the index of a table. Badger has been known
// to go on without such a table.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(12)
	for range 500 {
		commit(t, s, m.record())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, badgerDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	b, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-100] ^= 1
	if err := os.WriteFile(tables[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	// In a child, since Badger leaves goroutines behind when it does not open.
	c := startChild(t, "hold", dir, 0)
	if line, ok := <-c.lines; ok {
		t.Errorf("a table is missing, and the child says %q", line)
	}
	c.drain()
	if !strings.Contains(c.stderr.String(), "checksum") {
		t.Errorf("the child says %q", c.stderr.String())
	}
	// Nothing was made worse.
	b[len(b)-100] ^= 1
	if err := os.WriteFile(tables[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	m.check(t, open(t, dir, small()))
}
