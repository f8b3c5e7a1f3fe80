package e2e

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Pack writes the regular files below a directory to an archive.
func Pack(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // the level is one that there is
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Unpack unpacks the files of an archive whose names begin with a prefix into a directory.
func Unpack(t *testing.T, archive, prefix, dir string) {
	t.Helper()
	f, err := os.Open(archive)
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
		rest, ok := strings.CutPrefix(h.Name, prefix)
		if !ok {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(rest))
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
