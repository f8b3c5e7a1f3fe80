package crawl

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/state"
)

// Nothing of a damaged snapshot of the frontier's folds is used.
func TestDamagedFolds(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir := t.TempDir()
		store, err := state.Open(dir, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		f, err := frontier.New(frontier.Options{}, store)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := &run{store: store, frontier: f, settings: &config.Settings{}}
		blob := binary.BigEndian.AppendUint64(nil, store.Run())
		blob = binary.BigEndian.AppendUint64(blob, 12345) // id of a domain
		blob = binary.BigEndian.AppendUint16(blob, 3)     // its failures
		blob = binary.BigEndian.AppendUint64(blob, 1)     // position
		save := func(write func(w *state.SnapshotWriter) error) {
			if err := store.Checkpoint(t.Context(), write); err != nil {
				t.Fatal(err)
			}
		}
		save(func(w *state.SnapshotWriter) error {
			return w.Put(frontier.FoldName, 1, func(w io.Writer) error { _, err := w.Write(blob); return err })
		})
		if damaged {
			flipLastByte(t, dir)
		}
		snapshots, _ := store.Snapshots()
		if _, err := r.readFolds(snapshots); (err != nil) != damaged {
			t.Fatalf("damaged: %v, error %v", damaged, err)
		}
		save(func(w *state.SnapshotWriter) error { return f.SaveFolds(w, store.Run()) })
		want := len(blob)
		if damaged {
			want = 8 // no domain
		}
		snapshots, _ = store.Snapshots()
		for _, s := range snapshots {
			var got []byte
			err := store.ReadSnapshot(s, func(r io.Reader) (err error) { got, err = io.ReadAll(r); return err })
			if err != nil || len(got) != want {
				t.Errorf("damaged: %v, the frontier knows folds of %d bytes (%v), want %d", damaged, len(got), err, want)
			}
		}
	}
}

// flipLastByte damages the checksum of the only snapshot below a directory.
func flipLastByte(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*.snap"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots: %q, %v", found, err)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(found[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
}
