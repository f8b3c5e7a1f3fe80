package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recover finds the segments and the end of the last one, and prepares the log for Append. It changes nothing before it
// has read everything that could forbid it. DESIGN.md numbers the steps.
func (l *Log) recover() error {
	fs := l.opts.FS
	temps, err := l.list()
	if err != nil {
		return err
	}
	if err := l.readHeaders(); err != nil {
		return err
	}
	l.logID = randomID()
	if len(l.segments) > 0 {
		l.logID = l.segments[0].log
		err = l.recoverTail()
	} else {
		err = l.checkDurable(&tail{seg: segment{path: l.dir}})
	}
	if err == nil {
		err = fs.MkdirAll(l.dir)
	}
	if err != nil {
		return err
	}
	for _, t := range temps {
		if err := fs.Remove(t); err != nil {
			return err
		}
	}
	// A process that was killed may have left removals that are not durable. Those of this process must not become
	// durable before them.
	return fs.SyncDir(l.dir)
}

// list finds the segments by name, oldest first, and what is left of attempts
// to make one. Files with other names are not ours.
func (l *Log) list() (temps []string, err error) {
	names, err := l.opts.FS.ReadDir(l.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if base, ok := parseSegmentName(name); ok {
			l.segments = append(l.segments, segment{header: &header{base: base}, path: filepath.Join(l.dir, name)})
		} else if strings.HasSuffix(name, tempSuffix) {
			temps = append(temps, filepath.Join(l.dir, name))
		}
	}
	slices.SortFunc(l.segments, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return temps, nil
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
		if h.base != s.base {
			return &CorruptError{Segment: s.path, Reason: fmt.Sprintf("header says that record %d is the first",
				h.base)}
		}
		s.header = h
		if s.log != l.segments[0].log {
			return &CorruptError{Segment: s.path, Reason: "segment belongs to another log"}
		}
	}
	return nil
}

// recoverTail finds the end of the last segment and, unless it was cleanly
// ended, makes what it holds durable, cuts what follows and seals it.
func (l *Log) recoverTail() error {
	s := &l.segments[len(l.segments)-1]
	t, err := l.scanTail(*s)
	if err != nil {
		return err
	}
	l.durable = t.next - 1
	if err := l.checkDurable(t); err != nil {
		return err
	}
	if t.sealed() {
		return nil
	}
	if err := l.verifyOlder(); err != nil {
		return err
	}
	if s.size, err = l.repairTail(t); err != nil {
		return fmt.Errorf("repair log segment %s: %w", s.path, err)
	}
	l.recovery = t.torn()
	return nil
}

// checkDurable compares the records that were found, up to the tail t, with what the
// caller knows: all records up to Options.Durable and Options.Written were durable,
// and those after Options.Durable must follow without a gap.
func (l *Log) checkDurable(t *tail) error {
	if first := l.firstLocked(); l.opts.Durable > 0 && first > l.opts.Durable+1 {
		reason := fmt.Sprintf("the log begins with record %d, but record %d is needed", first, l.opts.Durable+1)
		return &CorruptError{Segment: l.segments[0].path, Next: first, Reason: reason}
	}
	durable := max(l.opts.Durable, l.opts.Written)
	if l.durable >= durable {
		return nil
	}
	reason := fmt.Sprintf("the log ends with record %d, but record %d was durable", l.durable, durable)
	if t.reason != "" {
		reason += ": " + t.reason
	}
	return &CorruptError{Segment: t.seg.path, Offset: t.at, Next: l.durable + 1, Reason: reason}
}

func (l *Log) scanTail(s segment) (*tail, error) {
	f, err := l.opts.FS.Open(s.path, false)
	if err != nil {
		return nil, err
	}
	t, err := scanTail(f, s)
	return t, errors.Join(err, f.Close())
}

// verifyOlder reads the segments before the last that have records which the
// caller may still need, so that a log damaged there is left as it was found.
func (l *Log) verifyOlder() error {
	for i, s := range l.segments[:len(l.segments)-1] {
		if l.segments[i+1].base <= l.opts.Durable+1 {
			continue
		}
		if err := l.replaySegment(s, l.segments[i+1].base, func(Place, []byte) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) repairTail(t *tail) (size int64, err error) {
	f, err := l.opts.FS.Open(t.seg.path, true)
	if err != nil {
		return 0, err
	}
	size, err = t.repair(f)
	return size, errors.Join(err, f.Close())
}
