package state

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/mapwright/mapwright/frontier"
)

// What is opened to be read takes no more of the disk, however often, and nothing can be committed. How the last run
// ended is found out by the next one.
func TestReadOnly(t *testing.T) {
	for name, killed := range map[string]bool{"after a clean end": false, "after a kill": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s := open(t, dir, still())
			for n := range uint64(100) {
				commit(t, s, frontier.Record{Links: []frontier.Link{{Key: key(n), URL: mustURL("http://a.test/")}}})
			}
			if killed {
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				copyDir(t, dir, dir+"+")
				dir += "+"
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var files, bytes int64
			for i := range 12 {
				o := still()
				o.Mode = ReadOnly
				r, err := Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Counters().Discovered; got != 100 || r.Recovery().Unclean != killed {
					t.Errorf("reader %d: %d pages, recovery %+v", i, got, r.Recovery())
				}
				if _, found, err := r.Page(t.Context(), key(7)); err != nil || !found {
					t.Errorf("reader %d: a page: %v, %v", i, found, err)
				}
				_, err = r.Commit(frontier.Record{})
				wantErr(t, ErrReadOnly, err, "commit")
				if err := r.Flush(t.Context()); err != nil {
					t.Errorf("flush: %v", err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				n, size := sizeOf(t, dir)
				if i > 1 && (n != files || size != bytes) { // the first may apply what a kill has left
					t.Errorf("after reader %d: %d files, %d bytes; before %d files, %d bytes", i, n, size, files, bytes)
				}
				files, bytes = n, size
			}
			s = open(t, dir, still())
			if s.Recovery().Unclean != killed || s.Counters().Discovered != 100 {
				t.Errorf("the next run: %+v, %d pages", s.Recovery(), s.Counters().Discovered)
			}
			commit(t, s, frontier.Record{})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s = open(t, dir, still()); s.Recovery().Unclean {
				t.Errorf("the run after it: %+v", s.Recovery())
			}
		})
	}
	_, err := Open(filepath.Join(t.TempDir(), "none"), Options{Mode: ReadOnly})
	wantErr(t, ErrNotExist, err, "a directory that is not there")
}

// sizeOf returns how many files a directory has, and their bytes.
func sizeOf(t *testing.T, dir string) (files, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files, bytes = files+1, bytes+info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, bytes
}
