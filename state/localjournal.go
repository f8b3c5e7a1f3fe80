package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/record"
	"github.com/mapwright/mapwright/wal"
)

// A localJournal is the log in the store's directory. A record is one entry of the
// log, and its position is the entry's number: so positions have no gaps.
type localJournal struct {
	log     *wal.Log
	durable *os.File // durableName
	buf     []byte   // memory for noteDurable
	recs    [][]byte // memory for Append
}

// durableName is a file in the log's directory that holds the position up to which
// the log is durable. It is overwritten after each fsync of the log and never
// synced itself: a kill loses nothing of it, and after a loss of power it may be
// older. It is never ahead of the log, so a log that ends before it is damaged.
// Without it, damage of the last batch would look like a write that was cut short.
const (
	durableName  = "DURABLE"
	durableMagic = "mwdurabl"
)

// openLocalJournal opens the log in dir. It must hold all records after synced, and
// all that were durable.
func openLocalJournal(dir string, synced frontier.Position, o wal.Options) (*localJournal, error) {
	path := filepath.Join(dir, durableName)
	durable, err := readDurable(path)
	if err != nil {
		return nil, err
	}
	o.Durable, o.Written = wal.LSN(synced), wal.LSN(durable)
	log, err := wal.Open(dir, o)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	j := &localJournal{log: log, durable: f}
	j.noteDurable()
	return j, nil
}

// readDurable returns the position in the file, 0 if there is none that can be read.
func readDurable(path string) (frontier.Position, error) {
	body, err := disk.ReadSmallFrame(path, durableMagic, record.Version)
	if _, damaged := errors.AsType[*CorruptError](err); damaged || errors.Is(err, os.ErrNotExist) {
		return 0, nil // it is needed only to find damage of the log
	}
	r := record.Reader{B: body}
	return frontier.Position(r.U64()), err
}

// noteDurable writes down how far the log is durable. An error leaves an older
// position in the file, which is valid.
func (j *localJournal) noteDurable() {
	var body [8]byte
	binary.BigEndian.PutUint64(body[:], uint64(j.log.Last()))
	j.buf = disk.AppendFrame(j.buf[:0], durableMagic, record.Version, body[:])
	_, _ = j.durable.WriteAt(j.buf, 0)
}

func (j *localJournal) first() frontier.Position { return frontier.Position(j.log.First()) }

func (j *localJournal) last() frontier.Position { return frontier.Position(j.log.Last()) }

func (j *localJournal) Append(_ context.Context, b *Batch) error {
	if next := j.log.Last() + 1; wal.LSN(b.position(0)) != next {
		return fmt.Errorf("record has position %d, and the next entry of the log is %d", b.position(0), next)
	}
	j.recs = j.recs[:0]
	for i := range b.len() {
		j.recs = append(j.recs, b.record(i))
	}
	if _, err := j.log.Append(j.recs...); err != nil {
		return err
	}
	j.noteDurable()
	return nil
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
	return JournalStats{Size: j.log.Size(), Reserved: j.log.Reserved(), Written: s.Written, Syncs: s.Batches,
		SyncMean: s.SyncMean}
}

func (j *localJournal) Close() error { return errors.Join(j.log.Close(), j.durable.Close()) }
