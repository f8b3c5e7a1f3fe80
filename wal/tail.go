package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// tail is what recovery finds out about the end of the last segment.
type tail struct {
	seg     segment
	end     int64  // where its good frames end
	at      int64  // where the frame after them should begin
	next    LSN    // the record due there
	barrier int64  // offset of the last good barrier; 0 if there is none
	reason  string // what is wrong at end; empty if there are zeros or nothing
	lost    int64  // bytes from at to the last one that is not zero
}

// scanTail reads the frames of s and what follows them. If that proves that
// something was durable where the frames end, the error is a *CorruptError.
func scanTail(src io.ReaderAt, s segment) (*tail, error) {
	r := newFrameReader(src, s, s.size)
	var err error
	for err == nil {
		_, _, err = r.read()
	}
	t := &tail{seg: s, end: r.off, at: r.at, next: r.next, barrier: r.barrier}
	var bad *CorruptError
	switch {
	case errors.As(err, &bad):
		t.reason = bad.Reason
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	later, err := t.search(src)
	if err != nil {
		return nil, fmt.Errorf("read log segment %s: %w", s.path, err)
	}
	if later > 0 {
		why := t.reason
		if why == "" {
			why = "zeros instead of a frame"
		}
		return nil, r.bad(fmt.Sprintf("%s, but a later batch begins at %d", why, later))
	}
	return t, nil
}

// search looks at every page after the good frames. It returns the offset of
// the first barrier it finds, which was written only when all before it was
// durable, or 0, and sets lost.
func (t *tail) search(src io.ReaderAt) (barrier int64, err error) {
	buf := make([]byte, min(readChunk, t.seg.size-t.end))
	for at := t.end; at < t.seg.size; {
		// Whole pages except for the first, so that no barrier is cut in two.
		chunk := buf[:min(readChunk-at%pageSize, t.seg.size-at)]
		if n, err := src.ReadAt(chunk, at); n < len(chunk) {
			return 0, err
		}
		for len(chunk) > 0 {
			page := chunk[:min(alignUp(at+1)-at, int64(len(chunk)))]
			if !isZero(page) {
				t.lost = at + int64(len(bytes.TrimRight(page, "\x00"))) - t.at
				if _, ok := t.seg.barrierAt(page, at); ok {
					return at, nil
				}
			}
			at += int64(len(page))
			chunk = chunk[len(page):]
		}
	}
	return 0, nil
}

// ended reports whether the good frames end in a barrier: all are durable.
func (t *tail) ended() bool { return t.barrier > 0 && t.end == t.barrier+barrierSize }

// sealed reports whether the segment ends as seal leaves it.
func (t *tail) sealed() bool {
	return t.ended() && t.reason == "" && t.lost == 0 && t.seg.size == t.barrier+pageSize
}

// torn describes what there is to cut, or is nil if that is only zeros.
func (t *tail) torn() *TornTail {
	if t.lost == 0 {
		return nil
	}
	reason := t.reason
	if reason == "" {
		reason = "bytes after a page that was not written"
	}
	return &TornTail{Segment: t.seg.path, Offset: t.at, Bytes: t.lost, Next: t.next, Reason: reason}
}

// repair makes the good frames durable, cuts what follows and seals the
// segment. It returns the segment's size.
func (t *tail) repair(f File) (int64, error) {
	if err := t.rewrite(f); err != nil {
		return 0, err
	}
	if err := cut(f, t.end); err != nil {
		return 0, err
	}
	end := alignUp(t.end)
	if t.ended() {
		return end, cut(f, end)
	}
	err := seal(f, t.seg.header, end, t.next)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		// A full disk must not keep a log from being read. The next Open
		// will find it unsealed and do all this again.
		return end, cut(f, end)
	}
	return end + pageSize, err
}

// cut sets the length of a file, durably.
func cut(f File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// rewrite writes the last batch over itself. It may have been read from the kernel's memory: if an earlier process saw
// its fsync fail, the kernel may hold those pages as clean although the disk never got them, and only a new write gets
// them there.
func (t *tail) rewrite(f File) error {
	if t.barrier == 0 || t.ended() {
		return nil
	}
	buf := make([]byte, min(readChunk, t.end-t.barrier))
	for at := t.barrier; at < t.end; {
		b := buf[:min(int64(len(buf)), t.end-at)]
		if n, err := f.ReadAt(b, at); n < len(b) {
			return err
		}
		if err := writeAt(f, b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}
