package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
)

// A Batch is what a session commits at once, for all its partitions together.
type Batch struct {
	Number uint64  // of the batch in its session, from 1 and without gaps
	Writes []Write // by partition, at most one for each
	Sent   []Sent  // by partition, at most one for each
	// Received are hand-overs that the rows of the same partitions have recorded, each mark up to a batch of a session.
	// The engine may delete them.
	Received []frontier.Mark
	Hold     []string // tokens of sources that begin
	Release  []string // tokens held by the session, of sources that have ended
	Scope    []string // scope extensions
}

// A Write is what a batch changes of a partition that the session owns.
type Write struct {
	Partition uint8
	Epoch     uint64 // as claimed
	After     Place  // the last row of the log before
	Granted   uint64 // as the session knows it
	Body      []byte // the next row; empty for none
	Status    PartStatus
	Close     bool // the partition has no owner any more
}

// Head is the last row of the log after the write.
func (w *Write) Head() Place {
	if len(w.Body) == 0 {
		return w.After
	}
	return w.After.Next(w.Body)
}

// Sent is what a batch hands over to the owner of a partition.
type Sent struct {
	To   uint8
	Body []byte
}

// Next is the place of a row after this one.
func (p Place) Next(body []byte) Place {
	var prev [8]byte
	binary.BigEndian.PutUint64(prev[:], p.Hash)
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(prev[:])
	_, _ = d.Write(body)
	return Place{p.Seq + 1, d.Sum64()}
}

// Validate names every fault of a batch. Engines call it.
func (b *Batch) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if b.Number == 0 {
		fault("number is 0")
	}
	rows := map[uint8]bool{}
	for i := range b.Writes {
		w := &b.Writes[i]
		if i > 0 && w.Partition <= b.Writes[i-1].Partition {
			fault("write %d is not of a higher partition than the one before", i)
		}
		rows[w.Partition] = len(w.Body) > 0
	}
	for i, s := range b.Sent {
		if i > 0 && s.To <= b.Sent[i-1].To {
			fault("hand-over %d is not for a higher partition than the one before", i)
		}
		if len(s.Body) == 0 {
			fault("hand-over %d is empty", i)
		}
	}
	for _, m := range b.Received {
		if !rows[m.Partition] {
			fault("hand-overs to partition %d are received without a row", m.Partition)
		}
	}
	names := map[string]bool{}
	for _, list := range [][]string{b.Hold, b.Release} {
		for _, name := range list {
			if name == "" || names[name] {
				fault("token %q is empty or given twice", name)
			}
			names[name] = true
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("batch %d: %w", b.Number, errors.Join(faults...))
	}
	return nil
}

// Digest tells batches of the same number apart.
func (b *Batch) Digest() uint64 {
	var buf []byte
	num := func(n uint64) { buf = binary.AppendUvarint(buf, n) }
	text := func(s string) { num(uint64(len(s))); buf = append(buf, s...) }
	flag := func(f bool) {
		if f {
			num(1)
		} else {
			num(0)
		}
	}
	num(b.Number)
	num(uint64(len(b.Writes)))
	for i := range b.Writes {
		w := &b.Writes[i]
		head := w.Head() // stands for the body
		for _, n := range []uint64{uint64(w.Partition), w.Epoch, w.After.Seq, w.After.Hash, w.Granted, head.Seq,
			head.Hash, uint64(w.Status.Busy), uint64(w.Status.Least), w.Status.Counted} {
			num(n)
		}
		flag(w.Status.Idle)
		flag(w.Close)
		text(string(w.Status.Counts))
	}
	num(uint64(len(b.Sent)))
	for _, s := range b.Sent {
		num(uint64(s.To))
		num(uint64(len(s.Body)))
		num(xxhash.Sum64(s.Body))
	}
	num(uint64(len(b.Received)))
	for _, m := range b.Received {
		num(uint64(m.Partition))
		buf = append(buf, m.Session[:]...)
		num(m.Batch)
	}
	for _, list := range [][]string{b.Hold, b.Release, b.Scope} {
		num(uint64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	return xxhash.Sum64(buf)
}

// CheckFence compares a write of a session with the row of its partition. An epoch belongs to one session, and only
// that session appends rows in it and changes its grant. So the engine has lost data if its row is behind what the
// session knows, has another grant, or names another owner of the epoch.
func CheckFence(p *Part, id SessionID, w *Write) error {
	switch {
	case p.Epoch < w.Epoch,
		p.Epoch == w.Epoch && p.Owner == id && p.Head.Seq < w.After.Seq,
		p.Epoch == w.Epoch && p.Owner == id && p.Granted != w.Granted,
		p.Epoch == w.Epoch && p.Owner != id && p.Owner != (SessionID{}):
		return fmt.Errorf("partition %d: %w", w.Partition, ErrRolledBack)
	case p.Owner != id || p.Epoch != w.Epoch || p.Head != w.After:
		return fmt.Errorf("partition %d: %w", w.Partition, ErrFenced)
	}
	return nil
}
