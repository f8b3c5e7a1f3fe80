package datadir

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
)

// File is a file that is written under a temporary name, until Publish. Once sealed it holds no buffers: a large export
// has hundreds of parts.
type File struct {
	Path string
	f    *os.File
	buf  *bufio.Writer
	zip  *gzip.Writer // nil if not compressed
	out  io.Writer

	room      *Room // nil if nothing bounds the file
	size      int64 // bytes that were written, counted by room
	isLeftOut bool  // set by room
}

// TempSuffix ends the temporary names of files that are being written. A process that is killed leaves such files
// behind. No user has files of such names, so they are replaced and deleted whatever they hold.
const TempSuffix = ".mapwright.tmp"

// Create opens path under a temporary name, with a buffer of its own.
func Create(path string, mode os.FileMode) (*File, error) {
	return CreateWith(path, mode, bufio.NewWriterSize(nil, BufferSize), nil)
}

// BufferSize is how much of a file is written at once.
const BufferSize = 256 << 10

// CreateWith is Create with buffers of the caller, which the file uses until it is flushed. Zip is nil if the file is
// not compressed. What an interrupted export left under the temporary name is removed. The file is always a new one: if
// another user put a link or a file there, nothing is written through it.
func CreateWith(path string, mode os.FileMode, buf *bufio.Writer, zip *gzip.Writer) (*File, error) {
	temp := path + TempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	w := &File{Path: path, f: f, buf: buf, zip: zip, out: buf}
	buf.Reset((*counted)(w))
	if zip != nil {
		zip.Reset(buf)
		w.out = zip
	}
	return w, nil
}

// Write implements io.Writer.
func (w *File) Write(p []byte) (int, error) { return w.out.Write(p) }

// IsLeftOut reports whether a Room has left the file out. What is written to it is dropped then, and Publish does
// nothing.
func (w *File) IsLeftOut() bool { return w.isLeftOut }

// counted is a File below its buffers.
type counted File

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	w := (*File)(c)
	if w.isLeftOut {
		return len(p), nil
	}
	n, err := w.f.Write(p)
	if err == nil {
		err = w.room.wrote(w, n)
	}
	return n, err
}

// Flush writes what is buffered, and gives the buffers up.
func (w *File) Flush() error {
	var err error
	if w.zip != nil {
		err = w.zip.Close()
	}
	err = errors.Join(err, w.buf.Flush())
	w.buf, w.zip, w.out = nil, nil, nil
	return err
}

// Sync makes what was flushed durable, and closes the file.
func (w *File) Sync() error {
	if w.isLeftOut {
		return nil
	}
	return errors.Join(w.f.Sync(), w.f.Close())
}

// Seal makes the file's content durable, still under its temporary name.
func (w *File) Seal() error { return errors.Join(w.Flush(), w.Sync()) }

// Publish gives a sealed file its name, which is recorded before if the directory has a record.
func (w *File) Publish() error {
	if w.isLeftOut {
		return nil
	}
	w.room.forget(w)
	if err := addToRecord(filepath.Dir(w.Path), filepath.Base(w.Path)); err != nil {
		return err
	}
	return os.Rename(w.Path+TempSuffix, w.Path)
}

// Discard removes a file that was not published. It may be called after Seal.
func (w *File) Discard() {
	_ = w.f.Close() // it may be closed already
	_ = os.Remove(w.Path + TempSuffix)
}

// Modes of files, before the umask.
const (
	Public  os.FileMode = 0o644 // files that users publish
	Private os.FileMode = 0o600 // what may hold secrets
)

// WriteFile writes a small file whole or not at all.
func WriteFile(path string, mode os.FileMode, content []byte) error {
	return WriteStream(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteStream writes a file whole or not at all: what the function writes becomes its content if the function succeeds.
func WriteStream(path string, mode os.FileMode, write func(io.Writer) error) error {
	return (*Room)(nil).WriteStream(path, mode, write)
}

// ReplaceFile is WriteFile for a file that users may have replaced by their own: if Mapwright did not write it, it
// returns ErrNotOurs.
func ReplaceFile(path string, mode os.FileMode, content []byte) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	return WriteFile(path, mode, content)
}

// Adopt gives a file that is whole and durable its name in the same directory. If there is a file of that name which
// Mapwright did not write, it returns ErrNotOurs.
func Adopt(temp, path string) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	if err := addToRecord(filepath.Dir(path), filepath.Base(path)); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
