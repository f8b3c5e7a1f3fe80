package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/wal"
)

// A localJournal is the log in the store's directory. A record is one entry of the
// log, and its position is the entry's number: so positions have no gaps.
type localJournal struct {
	log  *wal.Log
	recs [][]byte // memory for Append
}

// openLocalJournal opens the log in dir. It must hold all records after synced, and
// the one at synced.
func openLocalJournal(dir string, synced frontier.Position, o wal.Options) (*localJournal, error) {
	o.Durable = wal.LSN(synced)
	log, err := wal.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &localJournal{log: log}, nil
}

func (j *localJournal) first() frontier.Position { return frontier.Position(j.log.First()) }

func (j *localJournal) Append(_ context.Context, b *Batch) error {
	if next := j.log.Last() + 1; wal.LSN(b.At(0)) != next {
		return fmt.Errorf("record has position %d, and the next entry of the log is %d", b.At(0), next)
	}
	j.recs = j.recs[:0]
	for i := range b.Len() {
		j.recs = append(j.recs, b.Record(i))
	}
	_, err := j.log.Append(j.recs...)
	return err
}

func (j *localJournal) Replay(ctx context.Context, after Positions, fn func(frontier.Position, []byte) error) error {
	if len(after) == 0 {
		return nil
	}
	from := slices.Min(slices.Collect(maps.Values(after)))
	all := len(after) == record.Partitions && slices.Max(slices.Collect(maps.Values(after))) == from
	var wanted []byte
	return j.log.Replay(wal.LSN(from+1), func(lsn wal.LSN, rec []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := frontier.Position(lsn)
		if all {
			return fn(at, rec)
		}
		var parts []Part
		err := eachPart(rec, func(p Part) bool {
			if last, ok := after[p.Partition]; ok && last < at {
				parts = append(parts, p)
			}
			return true
		})
		if err != nil || len(parts) == 0 {
			return err
		}
		wanted = JoinParts(wanted[:0], parts...)
		return fn(at, wanted)
	})
}

func (j *localJournal) Truncate(_ context.Context, upTo Positions) error {
	if len(upTo) < record.Partitions {
		return nil // a partition may still need any record
	}
	err := j.log.TruncateBefore(wal.LSN(slices.Min(slices.Collect(maps.Values(upTo))) + 1))
	if errors.Is(err, wal.ErrClosed) {
		return ErrClosed
	}
	return err
}

func (j *localJournal) Stats() JournalStats {
	s := j.log.Stats()
	return JournalStats{Size: j.log.Size(), Written: s.Written, Syncs: s.Batches, SyncMean: s.SyncMean}
}

func (j *localJournal) Close() error { return j.log.Close() }
