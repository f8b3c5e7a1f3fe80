package frontier

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Failures of a domain in a row are a fold: they are computed from evidence in the
// order of positions, saved at checkpoints, and brought up to date from the
// evidence that was recorded since. So they are the same after any number of
// kills. A domain remembers the position of its last evidence: evidence that comes
// again changes nothing.

// FoldName is the name of the blob that SaveFolds writes.
const FoldName = "fold-domains"

const foldForm = 1 // version of the form of that blob

// SaveFolds writes what was computed from the evidence recorded before the call; it
// may be from a little more.
func (f *Frontier) SaveFolds(w FilterWriter) error {
	err := w.Put(FoldName, foldForm, func(w io.Writer) error {
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

// RestoreFolds reads what SaveFolds wrote. It is called before Resume.
func (f *Frontier) RestoreFolds(r io.Reader) error {
	for br := bufio.NewReader(r); ; {
		var b [18]byte
		if _, err := io.ReadFull(br, b[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("restore folds: %w", err)
		}
		f.withDomain(binary.BigEndian.Uint64(b[:]), func(d *domain) {
			d.failures = binary.BigEndian.Uint16(b[8:])
			d.at = Position(binary.BigEndian.Uint64(b[10:]))
		})
	}
}

// Fold takes in evidence that was recorded at a position by an earlier run. It is
// called after RestoreFolds, in the order of positions, before Resume.
func (f *Frontier) Fold(at Position, e Evidence) {
	switch e.Kind {
	case EvidenceDomainFailed, EvidenceDomainAnswered:
		f.withDomain(e.Subject, func(d *domain) { d.fold(at, e.Kind) })
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
	} else if d.failures < 1<<16-1 {
		d.failures++
	}
}

// withDomain calls fn for a domain, which may be unknown until then.
func (f *Frontier) withDomain(id uint64, fn func(*domain)) {
	s := f.shardOfPartition(uint8(id >> 56))
	s.lock()
	defer s.mu.Unlock()
	i := s.domainOf(id)
	d := s.domains.at(i)
	fn(d)
	// A new run tries the domains again that were given up.
	if most := f.o.FailureThreshold; most != Off && int(d.failures) >= most {
		d.failures = 0
	}
	if d.failures == 0 && d.hosts < 0 {
		delete(s.domainIDs, id)
		s.domains.release(i)
	}
}
