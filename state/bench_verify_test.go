package state

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkVerify checks the files of a store that was filled, as Open does.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir() + "/s"
	s, _ := fill(b, dir, Options{}, 100, benchSize(b, 1_000_000))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	reached, err := readSynced(filepath.Join(dir, badgerDir))
	if err != nil {
		b.Fatal(err)
	}
	var values, tables int64
	entries, err := os.ReadDir(filepath.Join(dir, badgerDir))
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			b.Fatal(err)
		}
		switch filepath.Ext(e.Name()) {
		case ".vlog":
			values += info.Size()
		case ".sst":
			tables += info.Size()
		}
	}
	f, err := listBadger(filepath.Join(dir, badgerDir), reached)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.verifyManifest(); err != nil {
		b.Fatal(err)
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
