package state

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// scanChunk is how many entries are read in one transaction. A transaction
// that stays open keeps Badger from dropping what is overwritten or deleted, so
// long reads begin a new one every so often, from where they were.
const scanChunk = 4096

// scan goes through the keys from start on that begin with prefix. It sees
// each key at most once, and each that is there all the time exactly once. Keys
// are valid until the next.
func (q *queries) scan(ctx context.Context, prefix, start []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := append([]byte{}, start...)
		var chunk [][]byte
		for {
			err := q.read(ctx, func(txn *badger.Txn) error {
				chunk = someKeys(txn, prefix, from, chunk[:0])
				return nil
			})
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

// someKeys appends up to scanChunk keys to dst.
func someKeys(txn *badger.Txn, prefix, from []byte, dst [][]byte) [][]byte {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	keys := make([]byte, 0, scanChunk*record.URLKeySize)
	for it.Seek(from); it.Valid() && len(dst) < scanChunk; it.Next() {
		n := len(keys)
		keys = append(keys, it.Item().Key()...)
		dst = append(dst, keys[n:len(keys):len(keys)])
	}
	return dst
}

// Keys goes through the keys of all URLs that were ever named, of the partitions from
// first to last, both included: those of pages in order, then those of sitemaps. It
// sees everything committed before the call.
func (q *queries) Keys(ctx context.Context, first, last uint8) iter.Seq2[weburl.Key, error] {
	return func(yield func(weburl.Key, error) bool) {
		if err := q.flush(ctx); err != nil {
			yield(weburl.Key{}, err)
			return
		}
		for _, family := range []byte{record.FamURL, record.FamSitemap} {
			if !q.familyKeys(ctx, family, first, last, yield) {
				return
			}
		}
	}
}

// familyKeys yields the keys of one family, and reports whether to go on.
func (q *queries) familyKeys(ctx context.Context, family, first, last uint8,
	yield func(weburl.Key, error) bool) bool {
	for key, err := range q.scan(ctx, []byte{family}, []byte{family, first}) {
		if err != nil {
			yield(weburl.Key{}, fmt.Errorf("read keys: %w", err))
			return false
		}
		k, ok := record.ParseURLKey(key)
		if !ok {
			yield(k, &CorruptError{What: "discovery", Reason: "its key does not decode"})
			return false
		}
		if k.Host.Partition() > last {
			return true
		}
		if !yield(k, nil) {
			return false
		}
	}
	return true
}

// KeysSince goes through the keys of the links that records after a position name,
// in their order, to bring a filter up to date that was saved at that position.
// What was committed after the call may be missing. The error is
// wal.ErrOutOfRange if the journal was truncated; then the filter has to be made anew
// from Keys.
func (q *queries) KeysSince(ctx context.Context, at frontier.Position) iter.Seq2[weburl.Key, error] {
	return func(yield func(weburl.Key, error) bool) {
		v := record.Visitor{Link: func(l *record.LinkView) error {
			if !yield(l.Key, nil) {
				return record.ErrStopped
			}
			return nil
		}}
		err := q.journal.Replay(ctx, everywhere(at), func(_ frontier.Position, rec []byte) error {
			return record.Walk(rec, &v)
		})
		if err != nil && !errors.Is(err, record.ErrStopped) {
			yield(weburl.Key{}, fmt.Errorf("read links from journal: %w", err))
		}
	}
}

// EvidenceSince goes through the evidence of records after a position, in their
// order, to bring folds up to date that were saved at that position.
func (q *queries) EvidenceSince(
	ctx context.Context, at frontier.Position, fn func(at frontier.Position, run uint64, e frontier.Evidence),
) error {
	err := q.journal.Replay(ctx, everywhere(at), evidenceOf(fn))
	if err != nil {
		return fmt.Errorf("read evidence from journal: %w", err)
	}
	return nil
}

// evidenceOf returns a function that passes the evidence of a record to fn.
func evidenceOf(fn func(at frontier.Position, run uint64, e frontier.Evidence)) func(frontier.Position, []byte) error {
	var (
		at  frontier.Position
		run uint64
	)
	v := record.Visitor{
		Part: func(h record.PartHead) error {
			run = h.Run
			return nil
		},
		Evidence: func(e frontier.Evidence) error {
			fn(at, run, e)
			return nil
		},
	}
	return func(position frontier.Position, rec []byte) error {
		at = position
		return record.Walk(rec, &v)
	}
}
