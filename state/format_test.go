package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/record"
)

func TestOpenModes(t *testing.T) {
	root := t.TempDir()
	dir := root + "/deep/store"
	o := small()
	o.Mode = ExistingOnly
	_, err := Open(dir, o)
	wantErr(t, ErrNotExist, err, "open what is not there")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is there now: %v", err)
	}
	if info, err := Look(dir); err != nil || info.Exists {
		t.Errorf("look: %+v, %v", info, err)
	}
	o.Mode = CreateOnly
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Recovery().Created || s.Seed() != modelSeed {
		t.Errorf("recovery %+v, seed %d", s.Recovery(), s.Seed())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, o)
	wantErr(t, ErrExists, err, "create what is there")
	o.Mode, o.Seed = ExistingOnly, 99
	s, err = Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if s.Seed() != modelSeed {
		t.Errorf("seed %d, want the one that it was made with", s.Seed())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNotOurs leaves a directory with other files alone.
func TestNotOurs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/thesis.tex", []byte("do not touch"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, small())
	wantErr(t, ErrNotOurs, err, "open")
	wantErr(t, ErrNotOurs, Wipe(dir), "wipe")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("files %v, %v", names, err)
	}
	// What an interrupted creation leaves is ours.
	dir = t.TempDir()
	for _, name := range []string{disk.LockName, formatName + disk.TempSuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("?"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, small())
}

func TestWipeKeepsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/notes.txt", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Wipe(dir); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "notes.txt" {
		t.Errorf("files %v, %v", names, err)
	}
	wantErr(t, ErrNotExist, wipeEmpty(t), "wipe an empty directory")
}

func wipeEmpty(t *testing.T) error { return Wipe(t.TempDir()) }

// TestNewerFormat refuses a directory of tomorrow and changes nothing.
func TestNewerFormat(t *testing.T) {
	for _, name := range []string{formatName, badgerDir + "/" + syncedName} {
		dir := t.TempDir() + "/store"
		s, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint32(b[8:], 7)
		b = b[:len(b)-4]
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, small())
		if e := wantErrAs[*VersionError](t, err); e.Found != 7 || e.Known != record.Version || e.What != path {
			t.Errorf("%+v", e)
		}
	}
}

func TestDamagedFormat(t *testing.T) {
	dir := t.TempDir() + "/store"
	s, err := Open(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{formatName, badgerDir + "/" + syncedName} {
		flipEach(t, filepath.Join(dir, name), func(i int) {
			if _, err := Open(dir, small()); err == nil {
				t.Errorf("%s: byte %d is not missed", name, i)
			}
		})
	}
}

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := Open(t.TempDir(), Options{Mode: 9, BatchRecords: -1, QueueBytes: -2, MemTableSize: 5, ValueLogFileSize: 6,
		MinFree: -7})
	if err == nil {
		t.Fatal("no fault")
	}
	want := "state options: batch records -1 is negative\nqueue bytes -2 is negative\nleast free disk -7 is negative\n" +
		"memtable size 5 is less than 1048576\nvalue log file size 6 is not between 1048576 and 1073741824\nmode 9 " +
		"is unknown"
	if err.Error() != want {
		t.Errorf("got %q\nwant %q", err, want)
	}
}

// A store with a damaged FORMAT can be deleted, a directory of another program with a file of that name cannot.
func TestWipeDamagedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(dir, Options{MinFree: Off})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(frontier.Record{Facts: []frontier.CrawlFact{{Name: "a", Value: []byte("b")}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, formatName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 4
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Wipe(dir); err != nil {
		t.Errorf("a store with a damaged FORMAT: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, badgerDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{formatName, filepath.Join(badgerDir, "000001.sst")} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("something else entirely"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Wipe(dir); err == nil {
		t.Error("a directory that is no store was deleted")
	}
	if _, err := os.Stat(filepath.Join(dir, badgerDir, "000001.sst")); err != nil {
		t.Errorf("a file of another program is gone: %v", err)
	}
}

// TestOtherIdentity refuses a store whose keys were computed by other rules,
// and changes nothing. What needs no keys still works.
func TestOtherIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o := small()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := readFormat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.identity != weburl.Identity() || f.seed != modelSeed {
		t.Errorf("the format is %+v, want identity %q and seed %d", f, weburl.Identity(), modelSeed)
	}
	other := f
	other.identity = "url=0 idna=14.0.0 suffixes=2020-01-01/00000000"
	if err := writeFormat(dir, other); err != nil {
		t.Fatal(err)
	}
	before := readTree(t, dir)
	for _, mode := range []Mode{OpenOrCreate, ExistingOnly} {
		o.Mode = mode
		_, err := Open(dir, o)
		if e := wantErrAs[*IdentityError](t, err); e.Dir != dir || e.Found != other.identity ||
			e.Known != weburl.Identity() {
			t.Errorf("mode %d: %+v", mode, e)
		}
	}
	o.Mode = CreateOnly
	_, err = Open(dir, o)
	wantErr(t, ErrExists, err, "create what is there")
	if after := readTree(t, dir); !maps.EqualFunc(after, before, bytes.Equal) {
		t.Error("a store that was refused was changed")
	}
	if info, err := Look(dir); err != nil || !info.Exists || info.PID != 0 {
		t.Errorf("look: %+v, %v", info, err)
	}

	if err := writeFormat(dir, f); err != nil {
		t.Fatal(err)
	}
	o.Mode = ExistingOnly
	s, err = Open(dir, o)
	if err != nil {
		t.Fatalf("with its own identity again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := writeFormat(dir, other); err != nil {
		t.Fatal(err)
	}
	if err := Wipe(dir); err != nil {
		t.Errorf("wipe: %v", err)
	}
}
