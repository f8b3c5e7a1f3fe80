package datadir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/mapwright/mapwright/internal/disk"
)

// Room bounds what the outputs of one crawl take on the disk. It looks after every lookEvery bytes. If they take too
// much, the largest of the files that may be left out is left out, until the others fit: its temporary file is removed,
// and what is still written to it is dropped. A file of less than lookEvery bytes is never left out.
//
// Only one goroutine may write to the files of a Room. Nil is a Room without bounds.
type Room struct {
	// Space is what must stay free. If it would not, and no file can be left out, writing fails with disk.ErrFull.
	Space disk.Space
	// Allowed, when not nil, says how many bytes all files together may take. Files that may not be left out are
	// written beyond that.
	Allowed func() int64

	written int64   // bytes of all files that were not left out
	scratch int64   // bytes of temporary files
	since   int64   // bytes that were written since it last looked
	may     []*File // that may still be left out
	leftOut []LeftOut
}

// NewRoom returns a Room of all but the least free space. A nil free asks the operating system.
func NewRoom(least int64, free func(dir string) (int64, error)) *Room {
	if free == nil {
		free = disk.FreeBytes
	}
	return &Room{Space: disk.Space{Min: least, Free: free}}
}

// LeftOut is a file that was left out.
type LeftOut struct {
	Name     string // within its directory
	DiskFull bool   // for Room.Space, else for Room.Allowed
}

// lookEvery is how many bytes are written between two looks.
const lookEvery = 8 << 20

// Add counts what is written to a new file. Optional says whether the file may be left out.
func (r *Room) Add(w *File, optional bool) {
	if r == nil {
		return
	}
	w.room = r
	if optional {
		r.may = append(r.may, w)
	}
}

// LeftOut are the files that were left out.
func (r *Room) LeftOut() []LeftOut {
	if r == nil {
		return nil
	}
	return r.leftOut
}

// HasLeftOut reports whether the file of that name was left out.
func (r *Room) HasLeftOut(name string) bool {
	return slices.ContainsFunc(r.LeftOut(), func(l LeftOut) bool { return l.Name == name })
}

// WriteStream is the function WriteStream for a file that may be left out.
func (r *Room) WriteStream(path string, mode os.FileMode, write func(io.Writer) error) error {
	w, err := Create(path, mode)
	if err != nil {
		return err
	}
	r.Add(w, true)
	if err := write(w); err != nil {
		w.Discard()
		return err
	}
	if err := w.Seal(); err != nil {
		w.Discard()
		return err
	}
	return errors.Join(w.Publish(), disk.SyncDir(filepath.Dir(path)))
}

// wrote counts n bytes of a file, and leaves files out if there is too little room.
func (r *Room) wrote(w *File, n int) error {
	if r == nil {
		return nil
	}
	w.size += int64(n)
	r.written += int64(n)
	if r.since += int64(n); r.since < lookEvery {
		return nil
	}
	r.since = 0
	dir := filepath.Dir(w.Path)
	lack, err := r.Space.Lack(dir, lookEvery)
	if err != nil {
		return err
	}
	// A file system may show the space of a removed file later.
	for lack > 0 {
		freed := r.leaveOut(true)
		if freed == 0 {
			return r.Space.Check(dir, lookEvery)
		}
		lack -= freed
	}
	if r.Allowed == nil {
		return nil
	}
	for most := r.Allowed(); r.written > most && r.leaveOut(false) > 0; {
	}
	return nil
}

// A NoRoomError means that there is no room for temporary files.
type NoRoomError struct {
	DiskFull bool // because of Room.Space, else of Room.Allowed
}

func (e *NoRoomError) Error() string { return "there is no room for temporary files" }

// Scratch counts so many bytes of temporary files in dir; a negative number means that they are removed. They may take
// as much as all files together. The error is a *NoRoomError if they would take more.
func (r *Room) Scratch(dir string, bytes int64) error {
	if r == nil {
		return nil
	}
	if bytes < 0 {
		r.scratch += bytes
		return nil
	}
	lack, err := r.Space.Lack(dir, bytes)
	switch {
	case err != nil:
		return err
	case lack > 0:
		return &NoRoomError{DiskFull: true}
	case r.Allowed != nil && r.scratch+bytes > max(lookEvery, r.Allowed()):
		return &NoRoomError{}
	}
	r.scratch += bytes
	return nil
}

// sortMargin is what sorts that must be made leave to others: they give all back when they end or fail.
const sortMargin = 64 << 20

// Spill is Scratch for sorts without which there is no map. They may take what the disk has: about what the state of
// the crawl takes. The error is disk.ErrFull.
func (r *Room) Spill(dir string, bytes int64) error {
	if r == nil || bytes <= 0 {
		return nil
	}
	return r.Space.Check(dir, bytes+sortMargin)
}

// LeaveOut notes that files are not even begun, because of an error of Scratch.
func (r *Room) LeaveOut(why *NoRoomError, names ...string) {
	for _, name := range names {
		r.leftOut = append(r.leftOut, LeftOut{Name: name, DiskFull: why.DiskFull})
	}
}

// leaveOut leaves out the largest file that may be, and returns its size; 0 if there is none.
func (r *Room) leaveOut(diskFull bool) (freed int64) {
	var largest *File
	for _, w := range r.may {
		if w.size >= lookEvery && (largest == nil || w.size > largest.size) {
			largest = w
		}
	}
	if largest == nil {
		return 0
	}
	largest.Discard()
	largest.isLeftOut = true
	r.written -= largest.size
	r.leftOut = append(r.leftOut, LeftOut{Name: filepath.Base(largest.Path), DiskFull: diskFull})
	r.forget(largest)
	return largest.size
}

// forget notes that a file cannot be left out any more.
func (r *Room) forget(w *File) {
	if r != nil {
		r.may = slices.DeleteFunc(r.may, func(other *File) bool { return other == w })
	}
}
