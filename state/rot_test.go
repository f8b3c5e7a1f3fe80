package state

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/wal"
)

// TestRotOfTheLastBatch damages the last batch of the log of a store that was killed, after the batch was applied. It
// is not taken for a write that was cut short: the store is refused, and the positions are not given to other records.
func TestRotOfTheLastBatch(t *testing.T) {
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(5)
	for range 20 {
		commit(t, s, m.record())
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dir := s.dir + "+"
	copyDir(t, s.dir, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := readTree(t, dir)
	segment := lastSegment(whole)
	end := len(bytes.TrimRight(whole[segment], "\x00"))
	durable := filepath.Join(walDir, durableName)
	with := func(change func(map[string][]byte)) map[string][]byte {
		tree := maps.Clone(whole)
		tree[segment] = bytes.Clone(whole[segment])
		change(tree)
		return tree
	}
	tests := []struct {
		name    string
		tree    map[string][]byte
		refused bool
	}{
		{"whole", whole, false},
		{"bytes after the last batch", with(func(f map[string][]byte) { f[segment][end+100] = 1 }), false},
		{"no position", with(func(f map[string][]byte) { delete(f, durable) }), false},
		{"damaged position", with(func(f map[string][]byte) { f[durable] = []byte("mwdurabl") }), false},
		{"a byte of the last batch", with(func(f map[string][]byte) { f[segment][end-20] ^= 4 }), true},
		{"the last batch is zero", with(func(f map[string][]byte) { clear(f[segment][(end-1)&^4095 : end]) }), true},
		{"a byte of the last batch, and no position", with(func(f map[string][]byte) {
			delete(f,
				durable)
			f[segment][end-20] ^= 4
		}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			writeTree(t, dir, tt.tree)
			for range 2 {
				s, err := Open(dir, still())
				if !tt.refused {
					if err != nil {
						t.Fatal(err)
					}
					m.check(t, s)
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if e := wantErrAs[*wal.CorruptError](t, err); e.Offset == 0 && tt.tree[durable] != nil ||
					!strings.HasPrefix(e.Segment, filepath.Join(dir, walDir)) {
					t.Errorf("the error does not say where: %v", err)
				}
				if changed := differs(tt.tree, readTree(t, dir)); changed != "" && tt.tree[durable] != nil {
					t.Errorf("%s was changed", changed)
				}
			}
		})
	}
}

// lastSegment is the name of the newest segment of the log.
func lastSegment(tree map[string][]byte) string {
	var names []string
	for name := range tree {
		if filepath.Ext(name) == ".wal" {
			names = append(names, name)
		}
	}
	return slices.Max(names)
}

// The position of the last durable record is one short write after each fsync, and it is that of the log.
func TestDurablePosition(t *testing.T) {
	s := open(t, t.TempDir()+"/store", small())
	at := commit(t, s, newModel(1).record())
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, walDir, durableName)
	if got, err := readDurable(path); err != nil || got != at {
		t.Errorf("%d, %v; want %d", got, err, at)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 512 {
		t.Errorf("%v bytes, %v: it must lie within one sector", st.Size(), err)
	}
}
