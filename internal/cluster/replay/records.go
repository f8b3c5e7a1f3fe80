// Package replay reads the logs of all partitions of a crawl without a session: Records
// gives their records in the order of their positions, and Open makes a store of them,
// which can be asked and exported like that of one machine.
package replay

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/state"
)

// pageBytes is how much of a partition's log is read at once. With 256 partitions it is
// most of the memory that a replay needs.
const pageBytes = 128 << 10

// A Reader reads rows of a partition's log. [cluster.Log] has it.
type Reader interface {
	Read(ctx context.Context, id cluster.CrawlID, part uint8, after cluster.Place, limit int) ([]cluster.Row, error)
}

// Records calls fn for the records of all partitions up to the heads of a snapshot, in the order of their positions.
// Parts with the same position become one record, also if different machines wrote them: no part says anything about
// another partition. The bytes belong to fn until it returns. If a log does not have what the snapshot says, the error
// wraps [cluster.ErrRolledBack].
func Records(ctx context.Context, r Reader, s *cluster.Snapshot,
	fn func(at frontier.Position, rec []byte) error) error {
	codec, err := cluster.NewRowCodec()
	if err != nil {
		return err
	}
	logs := &logHeap{}
	for p := range s.Parts {
		l := &partLog{reader: r, codec: codec, crawl: s.Crawl.ID, partition: uint8(p), end: s.Parts[p].Head}
		more, err := l.fill(ctx)
		if err != nil {
			return err
		}
		if more {
			heap.Push(logs, l)
		}
	}
	var (
		parts []state.Part
		rec   []byte
	)
	for logs.Len() > 0 {
		at := logs.first().At
		for parts = parts[:0]; logs.Len() > 0 && logs.first().At == at; {
			l := (*logs)[0]
			parts = append(parts, l.parts[0])
			l.parts = l.parts[1:]
			more, err := l.fill(ctx)
			if err != nil {
				return err
			}
			if more {
				heap.Fix(logs, 0)
			} else {
				heap.Pop(logs)
			}
		}
		rec = state.JoinParts(rec[:0], parts...)
		if err := fn(at, rec); err != nil {
			return err
		}
	}
	return nil
}

// A logHeap has the log first whose next part has the least position, and of those with the same position the least
// partition.
type logHeap []*partLog

func (h logHeap) first() *state.Part { return &h[0].parts[0] }
func (h logHeap) Len() int           { return len(h) }
func (h logHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h logHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.parts[0].At < b.parts[0].At || a.parts[0].At == b.parts[0].At && a.partition < b.partition
}
func (h *logHeap) Push(l any) { *h = append(*h, l.(*partLog)) }
func (h *logHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// A partLog is the log of a partition, read page by page.
type partLog struct {
	reader    Reader
	codec     *cluster.RowCodec
	crawl     cluster.CrawlID
	partition uint8
	at        cluster.Place // of the row that parts come from
	end       cluster.Place
	rows      []cluster.Row // read, not decoded
	parts     []state.Part  // decoded, not given out
}

// fill reads on if no part is left, and reports whether there is one now.
func (l *partLog) fill(ctx context.Context) (bool, error) {
	for len(l.parts) == 0 {
		if l.at.Seq >= l.end.Seq {
			if l.at != l.end {
				return false, l.fault(cluster.ErrRolledBack)
			}
			return false, nil
		}
		if err := l.nextRow(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (l *partLog) nextRow(ctx context.Context) error {
	if len(l.rows) == 0 {
		rows, err := l.reader.Read(ctx, l.crawl, l.partition, l.at, pageBytes)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return l.fault(cluster.ErrRolledBack)
		}
		l.rows = rows
	}
	row := &l.rows[0]
	if !row.Follows(l.at) {
		return l.fault(cluster.ErrRow)
	}
	parts, err := l.codec.Decode(l.partition, l.at, row.Body)
	if err != nil {
		return err
	}
	l.at, l.parts, l.rows = row.Place, parts, l.rows[1:]
	return nil
}

func (l *partLog) fault(err error) error {
	return fmt.Errorf("partition %d, row %d: %w", l.partition, l.at.Seq+1, err)
}
