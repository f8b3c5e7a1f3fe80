package state

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
)

const (
	syncedName  = "SYNCED"
	syncedMagic = "mwsynced"
)

// progress is how far the view has come, with what is known at that place and
// not in Badger itself.
type progress struct {
	position frontier.Position // of the last record that is applied
	run      uint64            // the one that wrote it
	parts    *[partitions]partProgress
	inflight map[frontier.Key]struct{}
	files    map[string]badgerfiles.Span // how much of Badger's files is durable; only in a SYNCED file
}

// partProgress is what is known of a partition.
type partProgress struct {
	open     bool // it was opened and not closed since
	counters Counters
}

func newProgress() progress {
	return progress{parts: new([partitions]partProgress), inflight: map[frontier.Key]struct{}{}}
}

// total adds up the counters of all partitions.
func (p *progress) total() Counters {
	var sum Counters
	for i := range p.parts {
		sum.add(&p.parts[i].counters)
	}
	return sum
}

// unclean reports whether a partition was not closed.
func (p *progress) unclean() bool {
	for i := range p.parts {
		if p.parts[i].open {
			return true
		}
	}
	return false
}

func (p *progress) clone() progress {
	c := *p
	parts := *p.parts
	c.parts = &parts
	c.inflight = make(map[frontier.Key]struct{}, len(p.inflight))
	for k := range p.inflight {
		c.inflight[k] = struct{}{}
	}
	return c
}

// readSynced returns the place up to which the Badger in dir is known to be
// durable. Without the file that is the beginning of the log.
func readSynced(dir string) (progress, error) {
	path := filepath.Join(dir, syncedName)
	p := newProgress()
	body, err := disk.ReadSmallFrame(path, syncedMagic, formatVersion)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	r := reader{b: body}
	p.position, p.run = frontier.Position(r.uvarint()), r.uvarint()
	for n := r.upTo(partitions); n > 0 && !r.bad; n-- {
		e := r.sized()
		part := &p.parts[e.u8()]
		part.open, part.counters = e.u8() != 0, e.counters()
		if e.bad {
			r.fail()
		}
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		p.inflight[r.key()] = struct{}{}
	}
	p.files = r.spans()
	return p, r.done(path)
}

// writeSynced notes that the Badger in dir is durable up to p.
func writeSynced(dir string, p progress) error {
	_, err := disk.WriteFrame(filepath.Join(dir, syncedName), syncedMagic, formatVersion, func(w io.Writer) error {
		b := binary.AppendUvarint(nil, uint64(p.position))
		b = binary.AppendUvarint(b, p.run)
		b = p.appendParts(b)
		b = binary.AppendUvarint(b, uint64(len(p.inflight)))
		for k := range p.inflight {
			b = k.Append(b)
		}
		_, err := w.Write(appendSpans(b, p.files))
		return err
	})
	return err
}

// appendParts appends the partitions of which anything is known.
func (p *progress) appendParts(dst []byte) []byte {
	n := 0
	for i := range p.parts {
		if p.parts[i] != (partProgress{}) {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for i := range p.parts {
		if part := &p.parts[i]; *part != (partProgress{}) {
			var body int
			dst, body = beginSized(dst)
			dst = part.counters.append(append(dst, byte(i), flag(part.open, 1)))
			dst = endSized(dst, body)
		}
	}
	return dst
}

func appendSpans(dst []byte, spans map[string]badgerfiles.Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for name, s := range spans {
		dst = appendString(dst, name)
		dst = binary.AppendUvarint(dst, uint64(s.End))
		dst = binary.AppendUvarint(dst, uint64(s.First))
	}
	return dst
}

func (r *reader) spans() map[string]badgerfiles.Span {
	spans := map[string]badgerfiles.Span{}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		name := string(r.bytes())
		spans[name] = badgerfiles.Span{End: int64(r.upTo(math.MaxInt64)), First: uint32(r.upTo(math.MaxUint32))}
	}
	return spans
}
