package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// recover finds the segments, finds the end of the last one, and makes the log
// fit to go on. It changes nothing before it has read everything that could
// forbid it. The steps are those of DESIGN.md.
func (l *Log) recover() error {
	fs := l.opts.FS
	if err := fs.MkdirAll(l.dir); err != nil {
		return err
	}
	names, err := fs.ReadDir(l.dir)
	if err != nil {
		return err
	}
	var temps []string
	for _, name := range names {
		if base, ok := parseSegmentName(name); ok {
			l.segments = append(l.segments, segment{path: segmentPath(l.dir, base), header: &header{base: base}})
		} else if strings.HasSuffix(name, tempSuffix) {
			temps = append(temps, filepath.Join(l.dir, name))
		}
	}
	slices.SortFunc(l.segments, func(a, b segment) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	if err := l.readHeaders(); err != nil {
		return err
	}
	l.next, l.logID = 1, randomID()
	if n := len(l.segments); n > 0 {
		l.logID = l.segments[0].log
		if err := l.recoverTail(&l.segments[n-1]); err != nil {
			return err
		}
	}
	l.durable = l.next - 1
	for _, t := range temps {
		if err := fs.Remove(t); err != nil {
			return err
		}
	}
	return nil
}

// readHeaders checks the first page of every segment.
func (l *Log) readHeaders() error {
	for i := range l.segments {
		s := &l.segments[i]
		f, err := l.opts.FS.Open(s.path, false)
		if err != nil {
			return err
		}
		h, err := readHeader(f, s.path)
		if err == nil {
			s.size, err = f.Size()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		switch {
		case h.base != s.base:
			return &CorruptError{Segment: s.path, Reason: fmt.Sprintf("header says first record %d", h.base)}
		case h.log != l.segments[0].log && i > 0:
			return &CorruptError{Segment: s.path, Reason: "segment belongs to another log"}
		}
		s.header = h
	}
	return nil
}

// recoverTail finds the end of the last segment and, unless it was cleanly
// ended, cuts there and seals it.
func (l *Log) recoverTail(s *segment) error {
	f, err := l.opts.FS.Open(s.path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	r := newFrameReader(f, *s, s.size)
	for err == nil {
		_, _, err = r.read()
	}
	var bad *CorruptError
	if !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
		return err
	}
	l.next = r.next
	ended := r.barrier > 0 && r.off == r.barrier+barrierSize
	if bad == nil && ended && s.size == r.barrier+pageSize {
		return nil
	}
	lost, found, err := searchBarrier(f, s, r.off)
	switch {
	case err != nil:
		return fmt.Errorf("read log segment %s: %w", s.path, err)
	case found > 0 && bad != nil:
		return bad
	case found > 0:
		return r.bad(fmt.Sprintf("zeros, but a later batch begins at %d", found))
	}
	for i, old := range l.segments[:len(l.segments)-1] {
		if err := l.replaySegment(old, l.segments[i+1].base, func(LSN, []byte) error { return nil }); err != nil {
			return err
		}
	}
	if lost > 0 {
		l.recovery = &TornTail{Segment: s.path, Offset: r.off, Bytes: lost, Next: r.next, Reason: "bytes after a lost page"}
		if bad != nil {
			l.recovery.Reason = bad.Reason
		}
	}
	if err := repair(f, r, ended); err != nil {
		return fmt.Errorf("repair log segment %s: %w", s.path, err)
	}
	s.size, err = f.Size()
	return err
}

// searchBarrier looks for proof that what lies at off was once durable: a
// barrier after it. It also tells how many bytes there are from off to the last
// that is not zero.
func searchBarrier(f File, s *segment, off int64) (lost, found int64, err error) {
	buf := make([]byte, readChunk)
	for at := off &^ (pageSize - 1); at < s.size; at += readChunk {
		chunk := buf[:min(readChunk, s.size-at)]
		if _, err := f.ReadAt(chunk, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for i := int64(0); i < int64(len(chunk)); i += pageSize {
			page := chunk[i:min(i+pageSize, int64(len(chunk)))]
			if at+i < off {
				page = page[min(off-at-i, int64(len(page))):]
			}
			if isZero(page) {
				continue
			}
			for j := range page {
				if page[j] != 0 {
					lost = at + i + int64(cap(chunk[i:])-cap(page)) + int64(j) + 1 - off
				}
			}
			if _, ok := s.barrierAt(page, at+i); ok && at+i >= off {
				return lost, at + i, nil
			}
		}
	}
	return lost, 0, nil
}

// repair makes what was read durable, cuts what follows and seals the segment.
// Each step is durable before the next begins.
func repair(f File, r *frameReader, ended bool) error {
	buf := make([]byte, readChunk)
	for at := r.barrier; at > 0 && at < r.off; {
		b := buf[:min(readChunk, r.off-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		if err := writeAt(f, b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	if err := f.Truncate(r.off); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if ended {
		if err := f.Truncate(alignUp(r.off)); err != nil {
			return err
		}
		return f.Sync()
	}
	return seal(f, r.seg.header, alignUp(r.off), r.next)
}
