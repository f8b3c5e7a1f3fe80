package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const readChunk = 256 << 10

// frameReader reads the records of one segment in order. It keeps a window of
// the file in memory, as large as readChunk or as the largest frame met.
type frameReader struct {
	src   io.ReaderAt
	seg   segment
	limit int64 // where the file, or the durable part of it, ends

	off     int64 // end of the last good frame
	at      int64 // where the frame that is looked at begins: off, or the page after
	next    LSN   // LSN of the next record
	barrier int64 // offset of the last barrier; 0 before the first

	win      []byte // bytes of the file from winStart on
	winStart int64
	buf      []byte // memory of win
}

func newFrameReader(src io.ReaderAt, seg segment, limit int64) *frameReader {
	return &frameReader{src: src, seg: seg, limit: limit, off: headerSize, next: seg.base}
}

// read returns the next record, valid until the next call, and its LSN. At the
// end of the frames it returns io.EOF; off then says where they end, and
// whether something else follows is for the caller to find out. A frame that
// is not what it should be is a *CorruptError, and off stays before it.
func (r *frameReader) read() (LSN, []byte, error) {
	for {
		start, err := r.frameStart()
		if err != nil {
			return 0, nil, err
		}
		head, err := r.peek(start, frameHeader)
		if err != nil {
			return 0, nil, err
		}
		typ, length := head[0], int64(binary.LittleEndian.Uint32(head[1:]))
		if length > MaxRecordSize {
			return 0, nil, r.bad(fmt.Sprintf("length %d is over the maximum", length))
		}
		frame, err := r.peek(start, frameOverhead+length)
		if err != nil {
			return 0, nil, err
		}
		if typ == typeBarrier {
			lsn, ok := r.seg.barrierAt(frame, start)
			if !ok {
				return 0, nil, r.bad("barrier does not match its checksum or its place")
			}
			if lsn != r.next {
				return 0, nil, r.bad(fmt.Sprintf("barrier of record %d found where %d was due", lsn, r.next))
			}
			r.barrier, r.off = start, start+barrierSize
			continue
		}
		body, sum := frame[:frameHeader+length], frame[frameHeader+length:]
		if checksum(r.seg.recordSeed(r.next), body) != binary.LittleEndian.Uint32(sum) {
			return 0, nil, r.bad("checksum does not match")
		}
		if typ != typeRecord {
			return 0, nil, &VersionError{Segment: r.seg.path, Version: formatVersion,
				Detail: fmt.Sprintf("frame type %d at offset %d", typ, start)}
		}
		if r.barrier == 0 {
			return 0, nil, r.bad("record before the first barrier")
		}
		lsn := r.next
		r.next, r.off = lsn+1, start+int64(len(frame))
		return lsn, body[frameHeader:], nil
	}
}

// frameStart finds where the frame after off begins: at off, or, over the
// zeros that fill the last page of a batch, at the next page.
func (r *frameReader) frameStart() (int64, error) {
	r.at = r.off
	if r.off >= r.limit {
		return 0, io.EOF
	}
	b, err := r.peek(r.off, 1)
	if err != nil {
		return 0, err
	}
	if b[0] != 0 {
		return r.off, nil
	}
	page := min(alignUp(r.off+1), r.limit)
	pad, err := r.peek(r.off, page-r.off)
	if err != nil {
		return 0, err
	}
	if !isZero(pad) {
		return 0, r.bad("frame begins with a zero byte")
	}
	if page == r.limit {
		return 0, io.EOF
	}
	if b, err = r.peek(page, 1); err != nil {
		return 0, err
	}
	switch b[0] {
	case 0:
		return 0, io.EOF
	case typeBarrier:
		r.at = page
		return page, nil
	}
	return 0, r.bad("page after the end of a batch does not begin with a barrier")
}

// peek returns n bytes of the file from off on. It checks that there are so many before it allocates memory for them.
func (r *frameReader) peek(off, n int64) ([]byte, error) {
	if n > r.limit-off {
		return nil, r.bad(fmt.Sprintf("frame needs %d bytes, %d are left", n, r.limit-off))
	}
	if off < r.winStart || off+n > r.winStart+int64(len(r.win)) {
		if err := r.fill(off, n); err != nil {
			return nil, err
		}
	}
	i := off - r.winStart
	return r.win[i : i+n], nil
}

func (r *frameReader) fill(off, n int64) error {
	want := min(max(n, readChunk), r.limit-off)
	if int64(cap(r.buf)) < want {
		r.buf = make([]byte, want)
	}
	r.winStart, r.win = off, r.buf[:want]
	got, err := r.src.ReadAt(r.win, off)
	if int64(got) == want {
		return nil
	}
	r.win = r.win[:0]
	if err == nil || errors.Is(err, io.EOF) {
		return r.bad(fmt.Sprintf("file ends at %d, %d expected", off+int64(got), r.limit))
	}
	return fmt.Errorf("read log segment %s: %w", r.seg.path, err)
}

func (r *frameReader) bad(reason string) error {
	return &CorruptError{Segment: r.seg.path, Offset: r.at, Next: r.next, Reason: reason}
}

func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}
