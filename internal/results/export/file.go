package export

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/disk"
)

// file is a file on its way to its name. Once sealed it holds no buffers: a large export has hundreds of parts.
type file struct {
	path string
	f    *os.File
	buf  *bufio.Writer
	zip  *gzip.Writer // nil if not compressed
	out  io.Writer
}

// TempSuffix ends the temporary names of files that are being written. A process that is killed leaves such files
// behind. No user has files of such names, so they are replaced and deleted whatever they hold.
const TempSuffix = ".mapwright.tmp"

// create opens path under a temporary name, with buffers of its own.
func create(path string, mode os.FileMode) (*file, error) {
	f, err := openTemp(path, mode)
	if err != nil {
		return nil, err
	}
	return newFile(path, f, bufio.NewWriterSize(nil, bufferSize), nil), nil
}

// bufferSize is how much of a file is written at once.
const bufferSize = 256 << 10

// openTemp opens the temporary file of a path. What an interrupted export left under that name is removed. The file is
// always a new one: if another user put a link or a file there, nothing is written through it.
func openTemp(path string, mode os.FileMode) (*os.File, error) {
	temp := path + TempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
}

// newFile writes to f through the buffers until it is flushed. Zip is nil if it is not compressed.
func newFile(path string, f *os.File, buf *bufio.Writer, zip *gzip.Writer) *file {
	buf.Reset(f)
	w := &file{path: path, f: f, buf: buf, zip: zip, out: buf}
	if zip != nil {
		zip.Reset(buf)
		w.out = zip
	}
	return w
}

func (w *file) Write(p []byte) (int, error) { return w.out.Write(p) }

// flush writes what is buffered, and gives the buffers up.
func (w *file) flush() error {
	var err error
	if w.zip != nil {
		err = w.zip.Close()
	}
	err = errors.Join(err, w.buf.Flush())
	w.buf, w.zip, w.out = nil, nil, nil
	return err
}

// sync makes what was flushed durable, and closes the file.
func (w *file) sync() error { return errors.Join(w.f.Sync(), w.f.Close()) }

// seal makes the file's content durable, still under its temporary name.
func (w *file) seal() error { return errors.Join(w.flush(), w.sync()) }

// publish gives a sealed file its name, which is recorded before if the directory has a record.
func (w *file) publish() error {
	if err := addToRecord(filepath.Dir(w.path), filepath.Base(w.path)); err != nil {
		return err
	}
	return os.Rename(w.path+TempSuffix, w.path)
}

// discard removes a file that was not published. It may be called after seal.
func (w *file) discard() {
	_ = w.f.Close() // it may be closed already
	_ = os.Remove(w.path + TempSuffix)
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
	w, err := create(path, mode)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		w.discard()
		return err
	}
	if err := w.seal(); err != nil {
		w.discard()
		return err
	}
	return errors.Join(w.publish(), disk.SyncDir(filepath.Dir(path)))
}

// ReplaceFile is WriteFile for a file that users may have replaced by their own: if Mapwright did not write it, it
// returns ErrNotOurs.
func ReplaceFile(path string, mode os.FileMode, content []byte) error {
	if err := checkReplace(path); err != nil {
		return err
	}
	return WriteFile(path, mode, content)
}

// Adopt gives a file that is whole and durable its name in the same directory. If there is a file of that name which
// Mapwright did not write, it returns ErrNotOurs.
func Adopt(temp, path string) error {
	if err := checkReplace(path); err != nil {
		return err
	}
	if err := addToRecord(filepath.Dir(path), filepath.Base(path)); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
