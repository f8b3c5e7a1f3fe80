package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/wal"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, iotest.OneByteReader(strings.NewReader(s)))
		return err
	}
}

func readSnapshots(t *testing.T, s *Store) string {
	t.Helper()
	snaps, _ := s.Snapshots()
	var b strings.Builder
	for _, snap := range snaps {
		var content []byte
		err := s.ReadSnapshot(snap, func(r io.Reader) (err error) {
			content, err = io.ReadAll(r)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if int64(len(content)) != snap.Size {
			t.Errorf("snapshot %q has %d bytes, says %d", snap.Name, len(content), snap.Size)
		}
		fmt.Fprintf(&b, "%s/%d=%s ", snap.Name, snap.Version, content)
	}
	return b.String()
}

func TestCheckpoints(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() + "/store"
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if snaps, at := s.Snapshots(); len(snaps) != 0 || at != 0 {
		t.Errorf("snapshots of a new store: %v at %d", snaps, at)
	}
	at := commit(t, s, frontier.Record{})
	save := func(content string) error {
		return s.Checkpoint(ctx, func(w *SnapshotWriter) error {
			if w.Position() != at {
				t.Errorf("checkpoint at %d, want %d", w.Position(), at)
			}
			if err := w.Put("../odd name", 3, text(content)); err != nil {
				return err
			}
			if !w.Keep("sealed") {
				return w.Put("sealed", 4, text("once"))
			}
			return nil
		})
	}
	for i := range 4 {
		if err := save(fmt.Sprint("content ", i)); err != nil {
			t.Fatal(err)
		}
	}
	want := "../odd name/3=content 3 sealed/4=once "
	if got := readSnapshots(t, s); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// One that fails changes nothing.
	failure := errors.New("no filter today")
	wantErr(t, failure, s.Checkpoint(ctx, func(w *SnapshotWriter) error {
		return errors.Join(w.Put("other", 1, text("x")), failure)
	}), "checkpoint")
	if err := s.Checkpoint(ctx, func(w *SnapshotWriter) error {
		return errors.Join(w.Put("twice", 1, text("x")), w.Put("twice", 1, text("y")))
	}); err == nil {
		t.Error("one name was saved twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, small())
	if got := readSnapshots(t, s); got != want {
		t.Errorf("after reopening: got %q, want %q", got, want)
	}
	// Of the last two checkpoints: a manifest and a snapshot each, and one that
	// both have.
	names, err := os.ReadDir(filepath.Join(dir, snapDir))
	if err != nil || len(names) != 5 {
		t.Errorf("files %v, %v", names, err)
	}
}

// TestDamagedSnapshots flips every byte of a snapshot and of a checkpoint in
// turn.
func TestDamagedSnapshots(t *testing.T) {
	dir := t.TempDir() + "/store"
	s := open(t, dir, small())
	for i := range 2 {
		err := s.Checkpoint(context.Background(), func(w *SnapshotWriter) error {
			return w.Put("name", 1, text(fmt.Sprint("content ", i)))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	snaps, _ := s.Snapshots()
	path := filepath.Join(dir, snapDir, snaps[0].file)
	flipEach(t, path, func(i int) {
		err := s.ReadSnapshot(snaps[0], func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err == nil {
			t.Errorf("byte %d of the snapshot is not missed", i)
		}
	})
	path = filepath.Join(dir, snapDir, checkpointName(2))
	flipEach(t, path, func(i int) {
		newest, before, unreadable, err := loadCheckpoints(filepath.Join(dir, snapDir))
		if err != nil || unreadable == nil || newest.number != 1 || before.number != 0 {
			t.Errorf("byte %d: checkpoints %d and %d, %v, %v", i, newest.number, before.number, unreadable, err)
		}
	})
}

// flipEach calls fn with each byte of a file flipped in turn.
func flipEach(t *testing.T, path string, fn func(i int)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x55
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		fn(i)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointCutsLog checks that the log does not grow for ever, and that
// checkpoints are asked for.
func TestCheckpointCutsLog(t *testing.T) {
	ctx := context.Background()
	o := small()
	o.QueueBytes = 32 << 10
	s := open(t, t.TempDir()+"/store", o)
	m := newModel(10)
	var sizes []int64
	for len(sizes) < 6 {
		commit(t, s, m.record())
		select {
		case <-s.CheckpointDue():
			if err := s.Checkpoint(ctx, func(*SnapshotWriter) error { return nil }); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, s.Stats().LogBytes)
		default:
		}
	}
	if limit := 4 * s.opts.CheckpointBytes; slices.Max(sizes) > limit {
		t.Errorf("log sizes %v, want at most %d", sizes, limit)
	}
	if st := s.Stats(); st.Checkpoints != 6 || st.LastCheckpoint <= 0 {
		t.Errorf("stats %+v", st)
	}
	err := s.EvidenceSince(ctx, 0, func(frontier.Position, uint64, frontier.Evidence) {})
	wantErr(t, wal.ErrOutOfRange, err, "evidence of records that were cut")
	m.check(t, s)
}

// TestCloseDuringCheckpoint closes a store while a snapshot is being saved by
// a goroutine that reads from the store meanwhile.
func TestCloseDuringCheckpoint(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", small())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, frontier.Record{Links: []frontier.Link{{Key: key(1), URL: mustURL("https://a.example/")}}})
	closed := make(chan error)
	err = s.Checkpoint(t.Context(), func(w *SnapshotWriter) error {
		go func() { closed <- s.Close() }()
		<-s.broken // the store is closing
		out := make([]bool, 1)
		wantErr(t, ErrClosed, s.Seen(t.Context(), []weburl.Key{key(1)}, out), "seen")
		return w.Put("filter", 1, text("bits"))
	})
	wantErr(t, ErrClosed, err, "checkpoint")
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}
