package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Options say where the files are and what their first records say.
type Options struct {
	Dir string
	// Space is what must stay free: nothing is written to temporary files if it would not. Without Space.Free, that is
	// not looked at.
	Space disk.Space
	// MaxSize is the size that a file reaches before another one is begun. Zero means 1 GB.
	MaxSize int64
	// Machine is part of the names of files. Empty means the name of this machine.
	Machine string
	// Software is the program and its version, and Info are more names and values of warcinfo records.
	Software string
	Info     []string
}

const (
	suffix     = ".warc.gz"
	openSuffix = ".open"
	spoolName  = "spool-*.tmp"
	prefix     = "mapwright-"

	// smallBody is the largest body whose record is compressed in memory, while other goroutines write.
	smallBody = 1 << 20

	// mostSpooled is how many bytes the temporary files of a Writer have together: two of the largest sitemaps, or very
	// many of others.
	mostSpooled = 128 << 20

	lookEvery = 8 << 20 // bytes of temporary files between two looks at the disk
)

// IsName reports whether a file of this name is one that this package writes.
func IsName(name string) bool {
	spool, _ := filepath.Match(spoolName, name)
	return spool || strings.HasPrefix(name, prefix) && strings.HasSuffix(strings.TrimSuffix(name, openSuffix), suffix)
}

// A Writer writes the archive of one crawl. It is safe for use by any number of goroutines.
type Writer struct {
	o    Options
	zips sync.Pool // of *gzip.Writer

	spooled atomic.Int64 // bytes that temporary files have or are about to get
	offered atomic.Int64 // bytes that were to be written to them, in all
	isFull  atomic.Bool  // at the last look, too little was free for them

	mu     sync.Mutex
	file   *os.File // guarded by mu; nil if none is open
	size   int64    // guarded by mu; of file
	serial int      // guarded by mu; of the last file
	err    error    // guarded by mu; the first one; after it nothing is written
}

// Open makes a Writer for a directory. It completes the files of a process that was killed. The directory is made with
// the first record.
func Open(o Options) (*Writer, error) {
	w := &Writer{o: o}
	w.o.MaxSize = cmp.Or(o.MaxSize, 1_000_000_000)
	if w.o.Machine == "" {
		w.o.Machine, _ = os.Hostname()
	}
	w.o.Machine = safeName(w.o.Machine)
	entries, err := os.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(o.Dir, name)
		if !IsName(name) || !e.Type().IsRegular() {
			continue
		}
		if strings.HasSuffix(name, openSuffix) {
			err = repair(path)
		} else if !strings.HasSuffix(name, suffix) {
			err = os.Remove(path)
		}
		if err != nil {
			return nil, fmt.Errorf("open archive: %w", err)
		}
		w.serial = max(w.serial, serialOf(name))
	}
	return w, nil
}

// safeName keeps letters, digits and dots of a machine's name.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.':
			return r
		}
		return '_'
	}, name)
	return cmp.Or(name[:min(len(name), 64)], "unknown")
}

// serialOf is the number in the name of a file; 0 if there is none.
func serialOf(name string) int {
	parts := strings.Split(name, "-")
	if len(parts) < 4 {
		return 0
	}
	n, _ := strconv.Atoi(parts[2])
	return n
}

// repair cuts an incomplete record off the end of a file, and gives the file its name.
func repair(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := complete(f)
	if err == nil && size == 0 {
		return errors.Join(f.Close(), os.Remove(path))
	}
	err = errors.Join(err, f.Truncate(size), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(path, strings.TrimSuffix(path, openSuffix))
}

// complete is how many bytes the complete records at the beginning of a file have.
func complete(f io.Reader) (size int64, err error) {
	in := &countingReader{r: f}
	buffered := bufio.NewReaderSize(in, 64<<10)
	zip := new(gzip.Reader)
	for zip.Reset(buffered) == nil {
		zip.Multistream(false)
		if _, err := io.Copy(io.Discard, zip); err != nil {
			break
		}
		size = in.n - int64(buffered.Buffered())
	}
	return size, in.err
}

// A countingReader counts what is read, and remembers an error other than the end.
type countingReader struct {
	r   io.Reader
	n   int64
	err error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// Err is the first error of a file, or nil. It may be called on nil.
func (w *Writer) Err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// fail remembers the first error.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *Writer) failLocked(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("write archive: %w", err)
	}
}

// Keep implements fetch.Archive. Its result names the record that has the body: date and digest, or Exchange.Earlier
// after a revisit record.
func (w *Writer) Keep(x *fetch.Exchange) string {
	e, err := newExchange(x)
	if err != nil {
		w.fail(err)
		return ""
	}
	zip, _ := w.zips.Get().(*gzip.Writer)
	if zip == nil {
		zip = gzip.NewWriter(nil)
	}
	defer w.zips.Put(zip)
	if x.Length <= smallBody {
		var records bytes.Buffer
		if err = e.writeTo(&records, zip); err == nil {
			err = w.append(int64(records.Len()), func(f io.Writer) error {
				_, err := f.Write(records.Bytes())
				return err
			})
		}
	} else {
		err = w.append(x.Length, func(f io.Writer) error { return e.writeTo(f, zip) })
	}
	if err != nil {
		w.fail(err)
		return ""
	}
	return e.reference()
}

// append writes records at the end of the current file, or of a new one if they do not fit. Size is about how long they
// are. If it fails, the file is as before.
func (w *Writer) append(size int64, write func(io.Writer) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.file != nil && w.size+size > w.o.MaxSize {
		if err := w.closeLocked(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.createLocked(); err != nil {
			return err
		}
	}
	return w.writeLocked(write)
}

func (w *Writer) writeLocked(write func(io.Writer) error) error {
	if err := write(w.file); err != nil {
		_, seek := w.file.Seek(w.size, io.SeekStart)
		return errors.Join(err, w.file.Truncate(w.size), seek)
	}
	at, err := w.file.Seek(0, io.SeekCurrent)
	w.size = at
	return err
}

// makeDir makes the directory, if there is none.
func (w *Writer) makeDir() error {
	if err := os.Mkdir(w.o.Dir, 0o700); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// createLocked makes the next file, with its first record.
func (w *Writer) createLocked() error {
	if err := w.makeDir(); err != nil {
		return err
	}
	w.serial++
	now := time.Now().UTC()
	name := fmt.Sprintf("%s%s-%05d-%s%s", prefix, now.Format("20060102150405"), w.serial, w.o.Machine, suffix)
	f, err := os.OpenFile(filepath.Join(w.o.Dir, name+openSuffix), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	w.file, w.size = f, 0
	return w.writeLocked(func(f io.Writer) error {
		info := []string{"software", w.o.Software, "format", "WARC File Format 1.1", "conformsTo",
			"http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"}
		return writeInfo(f, name, now, append(info, w.o.Info...))
	})
}

// closeLocked makes the current file durable and gives it its name.
func (w *Writer) closeLocked() error {
	if w.file == nil {
		return nil
	}
	path := w.file.Name()
	err := errors.Join(w.file.Sync(), w.file.Close())
	w.file = nil
	if err != nil {
		return err
	}
	return os.Rename(path, strings.TrimSuffix(path, openSuffix))
}

// Sync makes the records durable that were written. It may be called on nil.
func (w *Writer) Sync() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil && w.err == nil {
		w.failLocked(w.file.Sync())
	}
	return w.err
}

// Close ends the current file, and returns the first error of the Writer. It may be called on nil, and again.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(w.closeLocked())
	return w.err
}

// A spool is a temporary file of a Writer. It has no name where the system allows that: then no kill leaves it behind,
// and it does not count as a file of the crawl.
type spool struct {
	*os.File
	w       *Writer
	size    int64
	isNamed bool
}

// Spool implements fetch.Archive.
func (w *Writer) Spool() (fetch.Spool, error) {
	err := w.makeDir()
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(w.o.Dir, spoolName)
	}
	if err != nil {
		w.fail(err)
		return nil, err
	}
	return &spool{File: f, w: w, isNamed: os.Remove(f.Name()) != nil}, nil
}

// Write implements fetch.Spool.
func (s *spool) Write(p []byte) (int, error) {
	if s.w.spooled.Add(int64(len(p))) > mostSpooled || !s.w.hasSpace(int64(len(p))) {
		s.w.spooled.Add(-int64(len(p)))
		return 0, fetch.ErrNoRoom
	}
	s.size += int64(len(p))
	n, err := s.File.Write(p)
	if err != nil {
		s.w.fail(err)
	}
	return n, err
}

// hasSpace says whether the disk has space for so many bytes of temporary files.
func (w *Writer) hasSpace(n int64) bool {
	if w.o.Space.Free == nil {
		return true
	}
	if all := w.offered.Add(n); w.isFull.Load() || all == n || all/lookEvery > (all-n)/lookEvery {
		lack, err := w.o.Space.Lack(w.o.Dir, lookEvery)
		w.isFull.Store(err == nil && lack > 0)
	}
	return !w.isFull.Load()
}

// Close removes the file.
func (s *spool) Close() error {
	err := s.File.Close()
	if s.isNamed {
		err = errors.Join(err, os.Remove(s.Name()))
	}
	s.w.spooled.Add(-s.size)
	return err
}
