package badgerfiles

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/disk"
)

// fill adds n entries to the Badger in dir, whose files are durable up to known, calls open while it is still open, and
// closes it. It returns how far the files were durable then.
func fill(tb testing.TB, dir string, known map[string]Span, n int, open func()) (durable map[string]Span) {
	tb.Helper()
	files, err := New(dir, known)
	if err != nil {
		tb.Fatal(err)
	}
	db, err := Open(dir, Options{MemTableSize: 1 << 20, ValueLogFileSize: 1 << 20,
		Logger: slog.New(slog.DiscardHandler),
		Failed: func(err error) { tb.Error(err) }})
	if err != nil {
		tb.Fatal(err)
	}
	value := bytes.Repeat([]byte{'v'}, 3*ValueThreshold)
	for i := 0; i < n; {
		txn := db.NewTransaction(true)
		for end := min(i+1000, n); i < end; i++ {
			if err := txn.Set(fmt.Appendf(nil, "key %020d", i), value); err != nil {
				tb.Fatal(err)
			}
		}
		if err := txn.Commit(); err != nil {
			tb.Fatal(err)
		}
	}
	if durable, err = files.Sync(); err != nil {
		tb.Fatal(err)
	}
	open()
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	return durable
}

// killed makes a directory with tables, value logs and a memtable, as a kill leaves it behind. There are too few
// entries for a compaction, so nothing changes while the files are copied.
func killed(t *testing.T) (dir string, durable map[string]Span) {
	t.Helper()
	running := t.TempDir()
	known := fill(t, running, nil, 20_000, func() {})
	dir = t.TempDir()
	durable = fill(t, running, known, 100, func() {
		for name, content := range read(t, running) {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir, durable
}

func read(tb testing.TB, dir string) map[string][]byte {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			tb.Fatal(err)
		}
	}
	return files
}

// TestVerify changes bytes in every file that Badger relies on, and removes each one. Verify names the file and changes
// nothing.
func TestVerify(t *testing.T) {
	dir, durable := killed(t)
	if err := Verify(dir, durable, true, true); err != nil {
		t.Fatal(err)
	}
	whole := read(t, dir)
	refused := func(name, what string) {
		t.Helper()
		before := read(t, dir)
		err := Verify(dir, durable, true, true)
		damage, ok := errors.AsType[*disk.CorruptError](err)
		if !ok || !strings.HasPrefix(damage.What, dir) {
			t.Errorf("%s, %s: %v", name, what, err)
		}
		if !maps.EqualFunc(before, read(t, dir), bytes.Equal) {
			t.Errorf("%s, %s: Verify changed a file", name, what)
		}
	}
	kinds := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		_, ext := fileID(name)
		end := len(whole[name])
		switch {
		case ext == ".vlog" || ext == ".mem":
			end = int(durable[name].End)
		case ext != ".sst" && name != "MANIFEST":
			continue
		}
		if end == 0 || kinds[ext] == 2 {
			continue
		}
		kinds[ext]++
		path := filepath.Join(dir, name)
		for _, at := range []int{entryFileHeader + 3, end / 2, end - 1} {
			flipped := bytes.Clone(whole[name])
			flipped[at] ^= 0x10
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			refused(name, fmt.Sprintf("byte %d of %d is changed", at, end))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if ext == ".sst" || name == "MANIFEST" { // memtables and older value logs may be deleted by Badger
			refused(name, "it is missing")
		}
		if err := os.WriteFile(path, whole[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, ext := range []string{".sst", ".vlog", ".mem", ""} { // the manifest has none
		if kinds[ext] == 0 {
			t.Errorf("no file %q was damaged: %v", ext, slices.Sorted(maps.Keys(whole)))
		}
	}
	if err := Verify(dir, durable, true, true); err != nil {
		t.Errorf("after the damage was undone: %v", err)
	}
}

// TestVerifyNoDirectory: a directory that is missing is damage only if it was there once.
func TestVerifyNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if err := Verify(dir, nil, false, true); err != nil {
		t.Error(err)
	}
	err := Verify(dir, nil, true, true)
	if damage, ok := errors.AsType[*disk.CorruptError](err); !ok || damage.What != dir {
		t.Errorf("error %v, want damage of %s", err, dir)
	}
}

// BenchmarkVerify checks the files of a Badger that was filled.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	durable := fill(b, dir, nil, 300_000, func() {})
	f, err := list(dir, durable, true)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.verifyManifest(); err != nil {
		b.Fatal(err)
	}
	var values, tables int64
	for name, size := range f.sizes {
		switch filepath.Ext(name) {
		case ".vlog":
			values += size
		case ".sst":
			tables += size
		}
	}
	b.Run("tables", func(b *testing.B) {
		b.SetBytes(tables)
		for b.Loop() {
			if err := f.verifyTables(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("values", func(b *testing.B) {
		b.SetBytes(values)
		for b.Loop() {
			if err := f.verifyValues(true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
