package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Failures of a domain in a row are a fold: they are computed from evidence in the
// order of positions, saved at checkpoints, and brought up to date from the
// evidence that was recorded since. So they are the same after any number of
// kills. A domain remembers the position of its last evidence: evidence that comes
// again changes nothing.

// FoldName is the name of the blob that SaveFolds writes.
const FoldName = "fold-domains"

const foldForm = 1 // version of the form of that blob

// SaveFolds writes what was computed from the evidence recorded before the call, by
// the run of the given number; it may be from a little more.
func (f *Frontier) SaveFolds(w FilterWriter, run uint64) error {
	err := w.Put(FoldName, foldForm, func(w io.Writer) error {
		if _, err := w.Write(binary.BigEndian.AppendUint64(nil, run)); err != nil {
			return err
		}
		for _, s := range f.shards {
			if _, err := w.Write(s.appendDomains(nil)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save folds: %w", err)
	}
	return nil
}

// appendDomains appends the domains that have failures: id, failures, position.
func (s *shard) appendDomains(dst []byte) []byte {
	s.lock()
	defer s.mu.Unlock()
	for _, i := range s.domainIDs {
		if d := s.domains.at(i); d.failures > 0 {
			dst = binary.BigEndian.AppendUint64(dst, d.id)
			dst = binary.BigEndian.AppendUint16(dst, d.failures)
			dst = binary.BigEndian.AppendUint64(dst, uint64(d.at))
		}
	}
	return dst
}

// RestoreFolds reads what SaveFolds wrote, and returns the number of the run that
// did. It is called before Resume. After an error nothing is restored.
func (f *Frontier) RestoreFolds(r io.Reader) (run uint64, err error) {
	b, err := io.ReadAll(r)
	if err == nil && (len(b) < 8 || (len(b)-8)%domainSize != 0) {
		err = errors.New("the blob is of another length")
	}
	if err != nil {
		return 0, fmt.Errorf("restore folds: %w", err)
	}
	for d := b[8:]; len(d) > 0; d = d[domainSize:] {
		f.withDomain(binary.BigEndian.Uint64(d), func(dom *domain) {
			dom.failures = binary.BigEndian.Uint16(d[8:])
			dom.at = Position(binary.BigEndian.Uint64(d[10:]))
		})
	}
	return binary.BigEndian.Uint64(b), nil
}

// domainSize is the length of a domain in the blob.
const domainSize = 18

// Fold takes in evidence that was recorded at a position by an earlier run. It is
// called after RestoreFolds, in the order of positions, before Resume.
func (f *Frontier) Fold(at Position, e Evidence) {
	switch e.Kind {
	case EvidenceDomainFailed, EvidenceDomainAnswered:
		f.withDomain(e.Subject, func(d *domain) { d.fold(at, e.Kind) })
	}
}

// FoldNewRun says that a new run began after the evidence so far. It tries the
// domains again that were given up, and begins their count anew.
func (f *Frontier) FoldNewRun() {
	for _, s := range f.shards {
		s.lock()
		for id, i := range s.domainIDs {
			d := s.domains.at(i)
			if most := f.o.FailureThreshold; most != Off && int(d.failures) >= most {
				d.failures = 0
			}
			if d.failures == 0 && d.hosts < 0 {
				delete(s.domainIDs, id)
				s.domains.release(i)
			}
		}
		s.mu.Unlock()
	}
}

// fold counts a failure, or ends a row of them.
func (d *domain) fold(at Position, kind EvidenceKind) {
	if at <= d.at {
		return
	}
	d.at = at
	if kind == EvidenceDomainAnswered {
		d.failures = 0
	} else if d.failures < math.MaxUint16 {
		d.failures++
	}
}

// withDomain calls fn for a domain, which may be unknown until then.
func (f *Frontier) withDomain(id uint64, fn func(*domain)) {
	s := f.shardOfPartition(uint8(id >> 56))
	s.lock()
	defer s.mu.Unlock()
	fn(s.domains.at(s.domainOf(id)))
}
