package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".wal"
	tempSuffix    = ".wal.tmp"
)

// segment is one file of the log.
type segment struct {
	*header
	path string
	size int64 // bytes that are durable and checked; the file may be longer
}

// segmentPath names a segment by its first LSN, so that names sort by age.
func segmentPath(dir string, base LSN) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, segmentSuffix))
}

// parseSegmentName is the inverse of segmentPath.
func parseSegmentName(name string) (LSN, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return LSN(n), err == nil && n > 0
}

// createSegment makes a segment file appear under its name, whole or not at
// all. It returns with the header and the name durable.
func createSegment(fs FS, dir string, h *header, size int64) (File, segment, error) {
	s := segment{header: h, path: segmentPath(dir, h.base), size: headerSize}
	temp := strings.TrimSuffix(s.path, segmentSuffix) + tempSuffix
	f, err := fs.Create(temp)
	if err != nil {
		return nil, s, fmt.Errorf("create log segment: %w", err)
	}
	err = func() error {
		if err := f.Preallocate(size); err != nil {
			return err
		}
		if err := writeAt(f, h.encode(), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := fs.Rename(temp, s.path); err != nil {
			return err
		}
		return fs.SyncDir(dir)
	}()
	if err != nil {
		// What is left is removed by the next Open if it cannot be now.
		_ = fs.Remove(temp)
		return nil, s, fmt.Errorf("create log segment %s: %w", s.path, errors.Join(err, f.Close()))
	}
	return f, s, nil
}

// seal ends a segment at end, a page boundary, with a barrier. All before end
// must be durable.
func seal(f File, h *header, end int64, next LSN) error {
	page := make([]byte, pageSize)
	h.appendBarrier(page[:0], end, next)
	if err := writeAt(f, page, end); err != nil {
		return err
	}
	return cut(f, end+pageSize)
}

// readHeader reads and checks the header of the segment called path.
func readHeader(f File, path string) (*header, error) {
	b := make([]byte, headerSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read log segment %s: %w", path, err)
	}
	return decodeHeader(path, b[:n])
}

// writeAt is WriteAt, but a short write is always an error.
func writeAt(f File, b []byte, off int64) error {
	n, err := f.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}
