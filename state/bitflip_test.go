package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/test/long"
	"github.com/mapwright/mapwright/wal"
)

// bitFlips is how many bits TestBitFlips changes in each of its stores. make
// bitflips asks for many more.
func bitFlips(t *testing.T) int {
	text := os.Getenv("STATE_BITFLIPS")
	if text == "" {
		return 100
	}
	return atoi(t, text)
}

// TestBitFlips changes single bits all over the files of a store, at rest or left
// behind by a kill. Each time the store gives exactly what it holds, or an error
// that names the file, and if Open refuses it, no file was changed.
func TestBitFlips(t *testing.T) {
	long.Test(t)
	flips := bitFlips(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir() + "/store"
			makeFlipStore(t, dir, killed)
			whole := readTree(t, dir)
			want, s, err := dumpStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			if s.TornTail != nil || s.Unclean != killed {
				t.Fatalf("the store as made: %+v", s)
			}
			writeTree(t, dir, whole)

			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 3))
			names := slices.Sorted(maps.Keys(whole))
			refused := 0
			for range flips {
				name := names[rng.IntN(len(names))]
				content := whole[name]
				at, ok := flipPlace(rng, content)
				if !ok {
					continue
				}
				flipped := bytes.Clone(content)
				flipped[at] ^= 1 << rng.IntN(8)
				tree := maps.Clone(whole)
				tree[name] = flipped
				writeTree(t, dir, tree)

				got, r, err := dumpStore(dir)
				where := fmt.Sprintf("%s, byte %d of %d", name, at, len(content))
				switch {
				case err != nil:
					refused++
					if !namesFile(err, dir) {
						t.Errorf("%s: the error names no file: %v", where, err)
					}
					if r == nil { // Open refused it
						if changed := differs(tree, readTree(t, dir)); changed != "" {
							t.Errorf("%s: refused (%v), and %s was changed", where, err, changed)
						}
					}
				case got == want:
				default:
					t.Errorf("%s: other content, and no error", where)
				}
				writeTree(t, dir, whole)
			}
			t.Logf("%d bits changed, %d refused", flips, refused)
			if refused == 0 {
				t.Error("no damage was found")
			}
		})
	}
}

// makeFlipStore makes a store with several tables, value logs and log segments,
// two checkpoints and snapshots.
func makeFlipStore(t *testing.T, dir string, killed bool) {
	t.Helper()
	at := dir
	if killed {
		at += "-running"
	}
	m := newModel(77)
	for run := range 3 {
		s, err := Open(at, small())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 400 {
			commit(t, s, m.record())
			if i == 200 {
				save := func(w *SnapshotWriter) error {
					return w.Put("part", 1, func(w io.Writer) error {
						_, err := w.Write([]byte("snapshot"))
						return err
					})
				}
				if err := s.Checkpoint(t.Context(), save); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if killed && run == 2 {
			copyDir(t, at, dir) // SYNCED is older than the log's end, as a rule
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// flipPlace chooses a byte of a file, often one near its ends, where headers and
// indexes are. Bytes of long runs of zeros, which are not written yet, are rare.
func flipPlace(rng *rand.Rand, b []byte) (int, bool) {
	used := len(bytes.TrimRight(b, "\x00"))
	if len(b) == 0 {
		return 0, false
	}
	switch used = max(used, 1); rng.IntN(5) {
	case 0:
		return rng.IntN(min(used, 64)), true
	case 1:
		return used - 1 - rng.IntN(min(used, 64)), true
	case 2:
		return rng.IntN(len(b)), true
	}
	return rng.IntN(used), true
}

// dumpStore opens the store, reads all that it holds and closes it. Recovery is nil
// if it did not open.
func dumpStore(dir string) (sum string, r *Recovery, err error) {
	o := small()
	o.Mode, o.CheckValues = ExistingOnly, true
	s, err := Open(dir, o)
	if err != nil {
		return "", nil, err
	}
	found := s.Recovery()
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx := context.Background()
	h := fnv.New128a()
	put := func(v any) { fmt.Fprintf(h, "%+v\n", v) }
	for p, err := range s.Pages(ctx) {
		if err != nil {
			return "", &found, err
		}
		put(p.Link)
		if p.Finish != nil {
			put(*p.Finish)
			p.Finish = nil
		}
		put(p)
	}
	for c, err := range s.Changes(ctx, 0) {
		if err != nil {
			return "", &found, err
		}
		put(c)
	}
	for k, err := range s.Keys(ctx, 0, 255) {
		if err != nil {
			return "", &found, err
		}
		put(k)
	}
	for b, err := range s.Backlogs(ctx, 0, 255) {
		if err != nil {
			return "", &found, err
		}
		put(b)
		links, _, err := s.Pending(ctx, b.Fact.Host, frontier.Cursor{}, 1<<20)
		if err != nil {
			return "", &found, err
		}
		put(links)
	}
	put(s.Counters())
	run := s.Facts()
	for _, name := range slices.Sorted(maps.Keys(run)) {
		put(name)
		put(run[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)), &found, nil
}

// namesFile reports whether an error says which file in dir is damaged.
func namesFile(err error, dir string) bool {
	if e, ok := errors.AsType[*wal.CorruptError](err); ok {
		return strings.HasPrefix(e.Segment, dir)
	}
	e, ok := errors.AsType[*CorruptError](err)
	return ok && strings.HasPrefix(e.What, dir) && e.What != filepath.Join(dir, badgerDir)
}

// readTree reads all files under dir but the lock files, whose content means
// nothing while they are not locked.
func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	tree := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == disk.LockName {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		tree[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// writeTree makes dir hold the tree and nothing else.
func writeTree(t *testing.T, dir string, tree map[string][]byte) {
	t.Helper()
	for name, old := range readTree(t, dir) {
		content, ok := tree[name]
		path := filepath.Join(dir, name)
		var err error
		switch {
		case !ok:
			err = os.Remove(path)
		case !bytes.Equal(old, content):
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range tree {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// differs names a file that is not the same in both trees.
func differs(a, b map[string][]byte) string {
	for name := range a {
		if got, ok := b[name]; !ok || !bytes.Equal(a[name], got) {
			return name
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			return name
		}
	}
	return ""
}

// TestValueRotsWhileOpen damages a value after Open has checked the files: the
// call that reads it returns an error that names the file.
func TestValueRotsWhileOpen(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(78)
	for range 50 {
		commit(t, s, m.record())
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, badgerDir, "*.vlog"))
	if err != nil || len(names) == 0 {
		t.Fatalf("value logs %v, %v", names, err)
	}
	f, err := os.OpenFile(names[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A byte in the middle of what is written is in some value or its key.
	if err := s.keeper.sync(); err != nil {
		t.Fatal(err)
	}
	reached, err := readSynced(filepath.Join(dir, badgerDir))
	if err != nil {
		t.Fatal(err)
	}
	const header = 20 // of a value log
	end := reached.files[filepath.Base(names[0])].End
	if end <= header {
		t.Fatalf("the entries of %s end at %d", names[0], end)
	}
	for at := int64(header); at < end; at += 40 {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 4
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	var damage *CorruptError
	for _, err := range s.Pages(t.Context()) {
		if err != nil {
			damage = wantErrAs[*CorruptError](t, err)
			break
		}
	}
	if damage == nil || damage.What != names[0] {
		t.Errorf("pages of a damaged value log: %v", damage)
	}
	if err := s.Close(); err == nil {
		t.Error("the store did not fail")
	}
}

// TestMissingValueLog removes or empties a value log. Without the newest that
// holds values the store does not open, and is not changed. Without an older one, reading the
// pages returns an error. Both name the file.
func TestMissingValueLog(t *testing.T) {
	dir := t.TempDir() + "/store"
	m := newModel(79)
	for range 2 { // each run of the store has a value log of its own
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			commit(t, s, m.record())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reached, err := readSynced(filepath.Join(dir, badgerDir))
	if err != nil {
		t.Fatal(err)
	}
	var logs []string
	for name := range reached.files {
		if filepath.Ext(name) == ".vlog" {
			logs = append(logs, filepath.Join(dir, badgerDir, name))
		}
	}
	slices.Sort(logs)
	if len(logs) < 2 {
		t.Fatalf("value logs %v", logs)
	}
	newest, whole := logs[len(logs)-1], readTree(t, dir)
	all, err := filepath.Glob(filepath.Join(dir, badgerDir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if name >= newest { // a newer one holds nothing yet
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	damaged := readTree(t, dir)
	_, err = Open(dir, small())
	if damage := wantErrAs[*CorruptError](t, err); damage != nil &&
		(damage.What != newest || damage.Reason != "it is missing") {
		t.Errorf("a store without its newest value log: %v", damage)
	}
	if diff := differs(damaged, readTree(t, dir)); diff != "" {
		t.Errorf("Open changed the damaged store: %s", diff)
	}

	if err := os.WriteFile(newest, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged = readTree(t, dir)
	_, err = Open(dir, small())
	if damage := wantErrAs[*CorruptError](t, err); damage != nil &&
		(damage.What != newest || !strings.HasPrefix(damage.Reason, "it is empty")) {
		t.Errorf("a store whose newest value log is empty: %v", damage)
	}
	if diff := differs(damaged, readTree(t, dir)); diff != "" {
		t.Errorf("Open changed the damaged store: %s", diff)
	}

	writeTree(t, dir, whole)
	if err := os.Remove(logs[0]); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	var damage *CorruptError
	for _, err := range s.Pages(t.Context()) {
		if err != nil {
			damage = wantErrAs[*CorruptError](t, err)
			break
		}
	}
	if damage == nil || damage.What != logs[0] || damage.Reason != "it is missing" {
		t.Errorf("pages without a value log: %v", damage)
	}
	if err := s.Close(); err == nil {
		t.Error("the store did not fail")
	}
}
