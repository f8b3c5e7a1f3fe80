package state

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/badgerfiles"
	"github.com/mapwright/mapwright/state/internal/record"
)

const (
	syncedName  = "SYNCED"
	syncedMagic = "mwsynced"
)

// progress is the position that the view has reached, and what is known at that position and not stored in Badger.
type progress struct {
	position frontier.Position // of the last record that is applied
	run      uint64            // the one that wrote it
	parts    *[record.Partitions]partProgress
	inflight map[weburl.Key]bool         // true if the page is in flight alone
	files    map[string]badgerfiles.Span // how much of Badger's files is durable; only in a SYNCED file
}

// partProgress is what is known of a partition.
type partProgress struct {
	open     bool // it was opened and not closed since
	counters Counters
}

func newProgress() progress {
	return progress{parts: new([record.Partitions]partProgress), inflight: map[weburl.Key]bool{}}
}

// total adds up the counters of all partitions.
func (p *progress) total() Counters {
	var sum Counters
	for i := range p.parts {
		sum.Add(&p.parts[i].counters)
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
	c.inflight = maps.Clone(p.inflight)
	return c
}

// readSynced returns the place up to which the Badger in dir is known to be
// durable. Without the file that is the beginning of the log.
func readSynced(dir string) (progress, error) {
	path := filepath.Join(dir, syncedName)
	p := newProgress()
	body, err := disk.ReadSmallFrame(path, syncedMagic, record.Version)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	r := record.Reader{B: body}
	p.position, p.run = frontier.Position(r.Uvarint()), r.Uvarint()
	for n := r.UpTo(record.Partitions); n > 0 && !r.Bad; n-- {
		e := r.Sized()
		part := &p.parts[e.U8()]
		part.open, part.counters = e.U8() != 0, readCounters(&e)
		if e.Bad {
			r.Fail()
		}
	}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		p.inflight[r.Key()] = false
	}
	p.files = readSpans(&r)
	if len(r.B) > 0 { // a list that was added to the format later
		for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
			p.inflight[r.Key()] = true
		}
	}
	return p, r.Done(path)
}

// writeSynced notes that the Badger in dir is durable up to p.
func writeSynced(dir string, p progress) error {
	_, err := disk.WriteFrame(filepath.Join(dir, syncedName), syncedMagic, record.Version, func(w io.Writer) error {
		b := binary.AppendUvarint(nil, uint64(p.position))
		b = binary.AppendUvarint(b, p.run)
		b = p.appendParts(b)
		b = binary.AppendUvarint(b, uint64(len(p.inflight)))
		var alone []weburl.Key
		for k, isAlone := range p.inflight {
			b = k.Append(b)
			if isAlone {
				alone = append(alone, k)
			}
		}
		b = binary.AppendUvarint(appendSpans(b, p.files), uint64(len(alone)))
		for _, k := range alone {
			b = k.Append(b)
		}
		_, err := w.Write(b)
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
			dst, body = record.BeginSized(dst)
			dst = part.counters.Append(append(dst, byte(i), record.Flag(part.open, 1)))
			dst = record.EndSized(dst, body)
		}
	}
	return dst
}

func appendSpans(dst []byte, spans map[string]badgerfiles.Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for name, s := range spans {
		dst = record.AppendString(dst, name)
		dst = binary.AppendUvarint(dst, uint64(s.End))
		dst = binary.AppendUvarint(dst, uint64(s.First))
	}
	return dst
}

func readSpans(r *record.Reader) map[string]badgerfiles.Span {
	spans := map[string]badgerfiles.Span{}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		name := string(r.Bytes())
		spans[name] = badgerfiles.Span{End: int64(r.UpTo(math.MaxInt64)), First: uint32(r.UpTo(math.MaxUint32))}
	}
	return spans
}
