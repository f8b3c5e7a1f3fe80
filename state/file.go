package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/mapwright/mapwright/wal"
)

// Files beside Badger are written whole: to a temporary name, synced, renamed,
// and their directory synced. So a reader finds the old one or the new one.
//
//	magic    8 bytes, by kind of file
//	version  4 bytes, big-endian
//	body
//	crc      4 bytes, big-endian: CRC-32C of all before it
const (
	fileOverhead = 8 + 4 + 4
	tempSuffix   = ".tmp"
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// writeFile makes path hold what body writes. It returns the size of the file.
func writeFile(path, magic string, version uint32, body func(io.Writer) error) (size int64, err error) {
	temp := path + tempSuffix
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			// A leftover is overwritten or swept away later.
			_ = os.Remove(temp)
		}
	}()
	w := &crcWriter{w: bufio.NewWriterSize(f, 64<<10), table: castagnoli()}
	head := binary.BigEndian.AppendUint32([]byte(magic), version)
	if _, err := w.Write(head); err != nil {
		return 0, err
	}
	if err := body(w); err != nil {
		return 0, err
	}
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, w.sum)); err != nil {
		return 0, err
	}
	if err := w.w.Flush(); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	if err := os.Rename(temp, path); err != nil {
		return 0, err
	}
	return w.n, syncDir(filepath.Dir(path))
}

// readFile opens a file that writeFile made and hands its body to fn. If the
// checksum turns out to be wrong, that is the error, whatever fn made of it.
func readFile(path, magic string, fn func(version uint32, size int64, r io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	body := st.Size() - fileOverhead
	if body < 0 {
		return &CorruptError{What: path, Reason: "it is too short"}
	}
	r := &crcReader{r: bufio.NewReaderSize(f, 64<<10), table: castagnoli()}
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	if string(head[:8]) != magic {
		return &CorruptError{What: path, Reason: "it is of another kind"}
	}
	fnErr := fn(binary.BigEndian.Uint32(head[8:]), body, io.LimitReader(r, body))
	if _, err := io.CopyN(io.Discard, r, body+int64(len(head))-r.n); err != nil {
		return err
	}
	sum := r.sum
	var tail [4]byte
	if _, err := io.ReadFull(r, tail[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(tail[:]) != sum {
		return &CorruptError{What: path, Reason: "its checksum is wrong"}
	}
	return fnErr
}

// readBody is readFile for small files of a version that is ours.
func readBody(path, magic string) ([]byte, error) {
	var body []byte
	err := readFile(path, magic, func(version uint32, _ int64, r io.Reader) error {
		if version > formatVersion {
			return &VersionError{What: path, Found: uint64(version), Known: formatVersion}
		}
		var err error
		body, err = io.ReadAll(r)
		return err
	})
	return body, err
}

func syncDir(dir string) error {
	if err := wal.OS().SyncDir(dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

type crcWriter struct {
	w     *bufio.Writer
	table *crc32.Table
	sum   uint32
	n     int64
}

func (w *crcWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.sum = crc32.Update(w.sum, w.table, p[:n])
	w.n += int64(n)
	return n, err
}

type crcReader struct {
	r     io.Reader
	table *crc32.Table
	sum   uint32
	n     int64
}

func (r *crcReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.sum = crc32.Update(r.sum, r.table, p[:n])
	r.n += int64(n)
	return n, err
}
