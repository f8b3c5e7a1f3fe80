package state

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// testdata/v2.tar.gz holds two directories of format version 2: one of a store
// that was closed, and one of a store that was killed. They must open for ever.
// It was made by this test with STATE_GOLDEN=v2 in the environment; a new
// version of the format gets a file of its own, beside this one. v1.tar.gz holds
// the same of format version 1, which is refused.
const (
	goldenSeed    = 100
	goldenRecords = 120
	goldenEnv     = "STATE_GOLDEN"
)

func TestGolden(t *testing.T) {
	if v := os.Getenv(goldenEnv); v != "" {
		makeGolden(t, filepath.Join("testdata", v+".tar.gz"))
	}
	archives, err := filepath.Glob("testdata/v*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("archives %v, %v", archives, err)
	}
	for _, name := range archives {
		root := t.TempDir()
		unpack(t, name, root)
		for _, life := range []string{"closed", "killed"} {
			t.Run(filepath.Base(name)+"/"+life, func(t *testing.T) {
				if strings.HasSuffix(name, "v1.tar.gz") {
					checkRefused(t, filepath.Join(root, life))
					return
				}
				checkGolden(t, open(t, filepath.Join(root, life), Options{Mode: ExistingOnly}), life == "killed")
			})
		}
	}
}

// checkRefused wants a store of format version 1 to be refused and left as it is.
func checkRefused(t *testing.T, dir string) {
	t.Helper()
	files := os.DirFS(dir)
	list := func() (all []string) {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			all = append(all, name+" "+string(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := list()
	s, err := Open(dir, Options{Mode: ExistingOnly})
	if err == nil {
		s.Close()
	}
	if e := wantErrAs[*VersionError](t, err); e.Found != 1 || e.Known != record.Version {
		t.Errorf("refused with %v", err)
	}
	if !slices.Equal(list(), want) {
		t.Error("the directory was changed")
	}
}

func checkGolden(t *testing.T, s *Store, killed bool) {
	t.Helper()
	m := newModel(goldenSeed)
	for m.n < goldenRecords {
		m.record()
	}
	m.check(t, s)
	if got := readSnapshots(t, s); got != "filter/2=bits sealed/1=layer " {
		t.Errorf("snapshots %q", got)
	}
	r := s.Recovery()
	if r.Unclean != killed || (r.Applied > 0) != killed || s.Seed() != modelSeed {
		t.Errorf("recovery %+v, seed %d", r, s.Seed())
	}
	want := 1
	if killed {
		want = 2
	}
	if got := s.CrashCount(key(1)); got != want {
		t.Errorf("crash count %d, want %d", got, want)
	}
	keys := 0
	_, at := s.Snapshots()
	for _, err := range s.KeysSince(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		keys++
	}
	if keys == 0 {
		t.Error("no keys in the log since the checkpoint")
	}
}

func makeGolden(t *testing.T, path string) {
	t.Helper()
	s, err := Open(t.TempDir()+"/store", still())
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(goldenSeed)
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(1), key(2)}})
	s = crash(t, s)
	commit(t, s, frontier.Record{Leased: []frontier.Key{key(1)}, Returned: []frontier.Key{key(2)}})
	for m.n < goldenRecords {
		commit(t, s, m.record())
		if m.n == goldenRecords/2 {
			err := s.Checkpoint(t.Context(), func(w *SnapshotWriter) error {
				return errors.Join(w.Put("filter", 2, text("bits")), w.Put("sealed", 1, text("layer")))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	copyDir(t, s.dir, filepath.Join(root, "killed"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copyDir(t, s.dir, filepath.Join(root, "closed"))
	pack(t, root, path)
}

func pack(t *testing.T, dir, path string) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !strings.HasPrefix(name, dir) {
			t.Fatalf("odd name %s", h.Name)
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}
