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
	seq      uint64 // last record that is applied
	run      uint64 // the one that wrote it
	ended    bool   // it ended its run
	counters Counters
	inflight map[frontier.Key]struct{}
	files    map[string]badgerfiles.Span // how much of Badger's files is durable; only in a SYNCED file
}

func (p *progress) clone() progress {
	c := *p
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
	p := progress{inflight: map[frontier.Key]struct{}{}}
	body, err := disk.ReadSmallFrame(path, syncedMagic, formatVersion)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	r := reader{b: body}
	p.seq, p.run = r.uvarint(), r.uvarint()
	p.ended = r.u8() != 0
	p.counters = r.counters()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		p.inflight[r.key()] = struct{}{}
	}
	p.files = r.spans()
	return p, r.done(path)
}

// writeSynced notes that the Badger in dir is durable up to p.
func writeSynced(dir string, p progress) error {
	_, err := disk.WriteFrame(filepath.Join(dir, syncedName), syncedMagic, formatVersion, func(w io.Writer) error {
		b := binary.AppendUvarint(nil, p.seq)
		b = binary.AppendUvarint(b, p.run)
		b = append(b, flag(p.ended, 1))
		b = p.counters.append(b)
		b = binary.AppendUvarint(b, uint64(len(p.inflight)))
		for k := range p.inflight {
			b = k.Append(b)
		}
		_, err := w.Write(appendSpans(b, p.files))
		return err
	})
	return err
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
