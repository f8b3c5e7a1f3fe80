package state

import (
	"context"
	"iter"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A Part is what a record says about one partition.
type Part struct {
	Partition uint8
	At        frontier.Position // of the record; all its parts have the same
	Body      []byte            // as FORMAT.md describes it
}

// Closes reports whether the part says that its partition was closed in good order.
func (p *Part) Closes() bool { return record.KindOf(p.Body) == record.KindClosed }

// IsSent reports whether the part has only links and questions for the owner of its partition, see [ReadHanded].
func (p *Part) IsSent() bool { return record.KindOf(p.Body) == record.KindSent }

// Handed is what one machine hands over to another.
type Handed struct {
	Links     []frontier.Link
	Questions []frontier.RobotsQuestion
	Origins   []frontier.OriginFact // answers to questions
	Marks     []frontier.Mark       // of what was received before
}

// ReadHanded reads parts for one partition that the owner of another partition has written.
func ReadHanded(parts ...Part) (h Handed, err error) {
	var bodies record.Bodies
	v := record.Visitor{
		Sent: func(s record.Sent) error {
			switch {
			case s.Link != nil:
				link, err := s.Link.Link()
				h.Links = append(h.Links, link)
				return err
			case s.Question != nil:
				h.Questions = append(h.Questions, *s.Question)
			case len(h.Links) == 0:
				return record.ErrDecode
			default:
				l := &h.Links[len(h.Links)-1]
				l.Vouchers = append(l.Vouchers, s.Voucher)
			}
			return nil
		},
		Origin: func(o record.Stored) error {
			fact, err := bodies.DecodeOrigin(o.Host, string(o.Origin), o.Value)
			h.Origins = append(h.Origins, fact)
			return err
		},
		Received: func(m frontier.Mark) error {
			h.Marks = append(h.Marks, m)
			return nil
		},
	}
	for _, p := range parts {
		if err := record.WalkPart(p.Partition, p.Body, &v); err != nil {
			return Handed{}, err
		}
	}
	return h, nil
}

// Positions are places in a journal, by partition. A partition that is not in the map is left out.
type Positions map[uint8]frontier.Position

// everywhere is the same position in all partitions.
func everywhere(at frontier.Position) Positions {
	p := make(Positions, record.Partitions)
	for i := range record.Partitions {
		p[uint8(i)] = at
	}
	return p
}

// A Journal is where records become durable. It is the truth of a crawl; Badger
// is a view of it that can be made again by replaying it.
//
// A record is given to it and comes back from it in the form in which the local log
// stores it: its parts, one after the other (FORMAT.md). [Batch.Parts] takes
// records apart for a journal that stores parts by partition, and [JoinParts] makes
// records of them again.
type Journal interface {
	// Append makes the records of a batch durable, in order, each with all its
	// parts or not at all. After an error it is not known which of them are
	// durable. Only the writer goroutine of a store calls it, and not again after
	// an error.
	Append(ctx context.Context, b *Batch) error

	// Replay calls fn for the records after the given positions, as far as they
	// concern those partitions, up to the last one that was durable when Replay
	// was called. They come in the order of their positions, which may have gaps.
	// The bytes belong to fn until it returns. If the journal does not hold what
	// follows a position, because it was truncated or never written, the error
	// wraps wal.ErrOutOfRange.
	Replay(ctx context.Context, after Positions, fn func(at frontier.Position, rec []byte) error) error

	// Truncate says that records at and before these positions are not needed any
	// more. The journal may keep them.
	Truncate(ctx context.Context, upTo Positions) error

	// Stats returns figures since the journal was opened.
	Stats() JournalStats

	// Close makes every later call fail with ErrClosed. The store calls it once,
	// after the last Append.
	Close() error
}

// JournalStats are figures of a journal.
type JournalStats struct {
	Size     int64         // bytes that it holds
	Reserved int64         // bytes of the disk that it has set aside beside these
	Written  int64         // bytes written since it was opened
	Syncs    uint64        // how often it made something durable
	SyncMean time.Duration // moving average of how long that took
}

// A Batch is a sequence of encoded records on their way to the journal and to
// Badger, in the order in which they were committed. Its positions grow.
type Batch struct {
	Number uint64 // of the batch in this run, from 1 and without gaps

	first frontier.Position // of the first record; the others follow without gaps
	buf   []byte            // the records, end to end
	ends  []int             // where each ends in buf
	at    time.Time         // when the first was committed
}

// len is how many records the batch has.
func (b *Batch) len() int { return len(b.ends) }

// position is the position of record i.
func (b *Batch) position(i int) frontier.Position { return b.first + frontier.Position(i) }

// record returns record i. The bytes must not be changed, and are valid until
// Append returns.
func (b *Batch) record(i int) []byte {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.buf[start:b.ends[i]:b.ends[i]]
}

// Parts goes through the parts of all records, in order.
func (b *Batch) Parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		more := true
		for i := 0; i < b.len() && more; i++ {
			// The store has encoded the records itself: they decode.
			_ = eachPart(b.record(i), func(p Part) bool {
				p.At = b.position(i)
				more = yield(p)
				return more
			})
		}
	}
}

func (b *Batch) last() frontier.Position { return b.position(b.len() - 1) }

// JoinParts appends the record that has these parts, which must be of different
// partitions.
func JoinParts(dst []byte, parts ...Part) []byte {
	dst = record.AppendHead(dst, len(parts))
	for _, p := range parts {
		var body int
		dst, body = record.BeginSized(dst)
		dst = append(append(dst, p.Partition), p.Body...)
		dst = record.EndSized(dst, body)
	}
	return dst
}

// eachPart calls fn for the parts of a record, without their position, until fn
// returns false.
func eachPart(rec []byte, fn func(Part) bool) error {
	r := record.Reader{B: rec}
	n, err := r.Parts()
	for ; err == nil && n > 0 && !r.Bad; n-- {
		e := r.Sized()
		p := Part{Partition: e.U8()}
		if e.Bad {
			return record.ErrDecode
		}
		p.Body = e.B
		if !fn(p) {
			return nil
		}
	}
	if err == nil && r.Bad {
		err = record.ErrDecode
	}
	return err
}
