package datadir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/internal/disk"
)

// roomFiles makes files of a Room, all of which but the first may be left out.
func roomFiles(t *testing.T, r *Room, names ...string) (files []*File) {
	dir := t.TempDir()
	for i, name := range names {
		f, err := Create(filepath.Join(dir, name), Public)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Discard)
		r.Add(f, i > 0)
		files = append(files, f)
	}
	return files
}

func writeMiB(t *testing.T, f *File, n int) {
	t.Helper()
	for range n {
		if _, err := f.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
}

// filesIn are the names and sizes in MiB of a directory.
func filesIn(t *testing.T, path string) (names []string, sizes []int64) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names, sizes = append(names, e.Name()), append(sizes, info.Size()>>20)
	}
	return names, sizes
}

// The largest file is left out until the others fit. A small one is not, nor one that must be written.
func TestRoomLeavesOutTheLargest(t *testing.T) {
	t.Parallel()
	r := &Room{Space: disk.Space{Min: -1}, Allowed: func() int64 { return 30 << 20 }}
	files := roomFiles(t, r, "needed", "medium", "large", "small")
	for i, mib := range []int{40, 10, 12, 4} {
		writeMiB(t, files[i], mib/2)
	}
	for i, mib := range []int{40, 10, 12, 4} {
		writeMiB(t, files[i], mib/2)
	}
	for _, f := range files {
		if err := errors.Join(f.Seal(), f.Publish()); err != nil {
			t.Fatal(err)
		}
	}
	names, sizes := filesIn(t, files[0].Path)
	if want := []string{"needed", "small"}; !slices.Equal(names, want) || !slices.Equal(sizes, []int64{40, 4}) {
		t.Errorf("files %v of %v MiB", names, sizes)
	}
	if want := []LeftOut{{Name: "medium"}, {Name: "large"}}; !sameLeftOut(r.LeftOut(), want) {
		t.Errorf("left out %v", r.LeftOut())
	}
	if r.written != 44<<20 {
		t.Errorf("%d bytes count", r.written)
	}
}

func sameLeftOut(a, b []LeftOut) bool {
	for _, l := range a {
		if !slices.Contains(b, l) {
			return false
		}
	}
	return len(a) == len(b)
}

// While the disk is nearly full, files are left out. If that is not enough, writing fails.
func TestRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	free := int64(100 << 20)
	r := &Room{Space: disk.Space{Min: 50 << 20, Free: func(string) (int64, error) { return free, nil }}}
	files := roomFiles(t, r, "needed", "optional")
	writeMiB(t, files[1], 20)
	free = 50 << 20
	writeMiB(t, files[0], 9)
	if want := []LeftOut{{"optional", true}}; !sameLeftOut(r.LeftOut(), want) || !files[1].IsLeftOut() {
		t.Errorf("left out %v", r.LeftOut())
	}
	writeMiB(t, files[1], 20) // which is dropped
	var err error
	for i := 0; i < 20 && err == nil; i++ {
		_, err = files[0].Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, disk.ErrFull) {
		t.Errorf("writing ends with %v", err)
	}
}

// A stream that is left out leaves the file as it was, and its writer does not notice.
func TestRoomOfAStream(t *testing.T) {
	t.Parallel()
	r := &Room{Space: disk.Space{Min: -1}, Allowed: func() int64 { return 10 << 20 }}
	path := filepath.Join(t.TempDir(), "stream")
	for n, mib := range []int{2, 30, 3} {
		err := r.WriteStream(path, Public, func(w io.Writer) error {
			_, err := w.Write(make([]byte, mib<<20))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		names, sizes := filesIn(t, path)
		if want := []int64{2, 2, 3}[n]; !slices.Equal(names, []string{"stream"}) || sizes[0] != want {
			t.Errorf("after %d: files %v of %v MiB", n, names, sizes)
		}
	}
	if !r.HasLeftOut("stream") || r.HasLeftOut("other") {
		t.Errorf("left out %v", r.LeftOut())
	}
}
