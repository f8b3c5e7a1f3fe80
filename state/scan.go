package state

import (
	"context"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/wal"
)

// scanChunk is how many entries are read in one transaction. A transaction
// that stays open keeps Badger from dropping what is overwritten or deleted, so
// long reads begin a new one every so often, from where they were.
const scanChunk = 4096

// scan goes through the keys from start on that begin with prefix. It sees
// each key at most once, and each that is there all the time exactly once. Keys
// are valid until the next.
func (s *Store) scan(ctx context.Context, prefix, start []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := append([]byte{}, start...)
		var chunk [][]byte
		for {
			err := ctx.Err()
			if err == nil {
				chunk, err = s.scanSome(prefix, from, chunk[:0])
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, k := range chunk {
				if !yield(k, nil) {
					return
				}
			}
			if len(chunk) < scanChunk {
				return
			}
			// The least key that is greater.
			from = append(append(from[:0], chunk[len(chunk)-1]...), 0)
		}
	}
}

// scanSome appends up to scanChunk keys to dst.
func (s *Store) scanSome(prefix, from []byte, dst [][]byte) (_ [][]byte, err error) {
	defer s.guard(&err)
	if err := s.enter(); err != nil {
		return dst, err
	}
	defer s.leave()
	if err := s.marks.failed(); err != nil {
		return dst, err
	}
	txn := s.view.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	keys := make([]byte, 0, scanChunk*urlKeySize)
	for it.Seek(from); it.Valid() && len(dst) < scanChunk; it.Next() {
		n := len(keys)
		keys = append(keys, it.Item().Key()...)
		dst = append(dst, keys[n:len(keys):len(keys)])
	}
	return dst, nil
}

// Keys goes through the keys of all URLs that were ever named, in order, of the
// partitions from first to last, both included. It answers for what has been
// applied.
func (s *Store) Keys(ctx context.Context, first, last uint8) iter.Seq2[frontier.Key, error] {
	return func(yield func(frontier.Key, error) bool) {
		for key, err := range s.scan(ctx, []byte{famURL}, []byte{famURL, first}) {
			if err != nil {
				yield(frontier.Key{}, fmt.Errorf("read keys: %w", err))
				return
			}
			k, ok := parseURLKey(key)
			if !ok {
				yield(k, &CorruptError{What: "discovery", Reason: "its key does not decode"})
				return
			}
			if k.Host.Partition() > last || !yield(k, nil) {
				return
			}
		}
	}
}

// KeysSince goes through the keys of the links that records after seq name, in
// the order of the log, to bring a filter up to date that was saved at seq.
// What was committed after the call may be missing. The error is
// wal.ErrOutOfRange if the log was cut; then the filter has to be made anew
// from Keys.
func (s *Store) KeysSince(ctx context.Context, seq uint64) iter.Seq2[frontier.Key, error] {
	return func(yield func(frontier.Key, error) bool) {
		v := keyVisitor{yield: yield}
		err := s.log.Replay(wal.LSN(seq+1), func(_ wal.LSN, rec []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return walk(rec, &v)
		})
		if err != nil && !v.stopped {
			yield(frontier.Key{}, fmt.Errorf("read links from log: %w", err))
		}
	}
}

// A keyVisitor passes on the keys of links.
type keyVisitor struct {
	noVisitor
	yield   func(frontier.Key, error) bool
	stopped bool
}

func (v *keyVisitor) link(_ int, l *linkView) error {
	if !v.yield(l.key, nil) {
		v.stopped = true
		return errStopped
	}
	return nil
}
