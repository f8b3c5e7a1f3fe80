package disk

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

// A frame is a file that is written as a whole: to a temporary name, synced, renamed, and its directory synced. So a
// reader finds the old file or the new one.
//
//	magic    8 bytes, by kind of file
//	version  4 bytes, big-endian
//	body
//	crc      4 bytes, big-endian: CRC-32C of all before it
const frameOverhead = 8 + 4 + 4

// TempSuffix ends the temporary names of frames that are being written. A process that is killed leaves such files
// behind.
const TempSuffix = ".tmp"

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// WriteFrame makes path a frame that holds what body writes, and returns how many bytes that is.
func WriteFrame(path, magic string, version uint32, body func(io.Writer) error) (size int64, err error) {
	temp := path + TempSuffix
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			// What cannot be removed is overwritten or deleted later.
			_ = os.Remove(temp)
		}
	}()
	buffer, sum := bufio.NewWriterSize(f, 64<<10), crc32.New(castagnoli())
	w := io.MultiWriter(buffer, sum)
	head := binary.BigEndian.AppendUint32([]byte(magic), version)
	if _, err := w.Write(head); err != nil {
		return 0, err
	}
	if err := body(w); err != nil {
		return 0, err
	}
	if _, err := buffer.Write(sum.Sum(nil)); err != nil { // big-endian
		return 0, err
	}
	if err := buffer.Flush(); err != nil {
		return 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
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
	return size - frameOverhead, SyncDir(filepath.Dir(path))
}

// AppendFrame appends a frame with the given body to dst, for a file that is overwritten in place.
func AppendFrame(dst []byte, magic string, version uint32, body []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(append(dst, magic...), version)
	dst = append(dst, body...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli()))
}

// ReadFrame gives the body of a frame to fn. If the checksum is wrong, that is the error, whatever fn returns.
func ReadFrame(path, magic string, fn func(version uint32, r io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size() - frameOverhead
	if size < 0 {
		return &CorruptError{What: path, Reason: "it is too short"}
	}
	buffer, sum := bufio.NewReaderSize(f, 64<<10), crc32.New(castagnoli())
	summed := io.TeeReader(buffer, sum)
	var head [12]byte
	if _, err := io.ReadFull(summed, head[:]); err != nil {
		return err
	}
	if string(head[:8]) != magic {
		return &CorruptError{What: path, Reason: "it is of another kind"}
	}
	body := io.LimitReader(summed, size)
	fnErr := fn(binary.BigEndian.Uint32(head[8:]), body)
	if _, err := io.Copy(io.Discard, body); err != nil { // what fn left
		return err
	}
	var tail [4]byte
	if _, err := io.ReadFull(buffer, tail[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(tail[:]) != sum.Sum32() {
		return &CorruptError{What: path, Reason: "its checksum is wrong"}
	}
	return fnErr
}

// ReadSmallFrame returns the body of a frame. The error is a *VersionError if the frame has another version.
func ReadSmallFrame(path, magic string, known uint32) ([]byte, error) {
	var body []byte
	err := ReadFrame(path, magic, func(version uint32, r io.Reader) error {
		if version != known {
			return &VersionError{What: path, Found: uint64(version), Known: uint64(known)}
		}
		var err error
		body, err = io.ReadAll(r)
		return err
	})
	return body, err
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	if err := wal.OS().SyncDir(dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
