package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// Seen sets out[i] to whether keys[i] was ever named by a record committed
// before the call.
func (q *queries) Seen(ctx context.Context, keys []frontier.Key, out []bool) (err error) {
	defer q.guard(&err)
	if len(keys) != len(out) {
		return fmt.Errorf("seen: %d keys and room for %d answers", len(keys), len(out))
	}
	if err := q.enter(); err != nil {
		return err
	}
	defer q.leave()
	if err := q.marks.failed(); err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	ask := make([]int32, 0, len(keys))
	for i, k := range keys {
		out[i] = q.overlay.hasLink(k)
		if !out[i] {
			ask = append(ask, int32(i))
		}
	}
	if len(ask) == 0 {
		return nil
	}
	// Neighbours share blocks.
	slices.SortFunc(ask, func(a, b int32) int { return keys[a].Compare(keys[b]) })
	txn := q.view.newest.take()
	defer q.view.newest.drop(txn)
	var key [record.URLKeySize]byte
	for n, i := range ask {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch _, err := txn.Get(record.AppendURLKey(key[:0], record.FamURL, keys[i])); {
		case err == nil:
			out[i] = true
		case !errors.Is(err, badger.ErrKeyNotFound):
			return fmt.Errorf("seen: %w", err)
		}
	}
	return nil
}

// Host returns the latest fact about a host.
func (q *queries) Host(_ context.Context, h frontier.HostID) (frontier.HostFact, bool, error) {
	if f, ok := q.overlay.host(h); ok {
		return f, true, nil
	}
	var f frontier.HostFact
	ok, err := q.get(record.AppendHostKey(nil, record.FamHost, h), func(b []byte) (err error) {
		f, err = record.DecodeHost(h, b)
		return err
	})
	if err != nil {
		return frontier.HostFact{}, false, fmt.Errorf("read host fact: %w", err)
	}
	return f, ok, nil
}

// Origin returns what was last committed about an origin of a host.
func (q *queries) Origin(_ context.Context, h frontier.HostID, origin string) (frontier.OriginFact, bool, error) {
	if f, ok := q.overlay.origin(origin); ok {
		return f, true, nil
	}
	var f frontier.OriginFact
	ok, err := q.get(record.AppendOriginKey(nil, h, origin), func(b []byte) (err error) {
		f, err = q.bodies.DecodeOrigin(h, origin, b)
		return err
	})
	if err != nil {
		return frontier.OriginFact{}, false, fmt.Errorf("read origin fact: %w", err)
	}
	return f, ok, nil
}

// get reads one entry, if it is there. The value is valid during the call.
func (q *queries) get(key []byte, fn func(value []byte) error) (_ bool, err error) {
	defer q.guard(&err)
	if err := q.enter(); err != nil {
		return false, err
	}
	defer q.leave()
	if err := q.marks.failed(); err != nil {
		return false, err
	}
	txn := q.view.newest.take()
	defer q.view.newest.drop(txn)
	return getValue(txn.Txn, key, fn)
}

func getValue(txn *badger.Txn, key []byte, fn func(value []byte) error) (bool, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, item.Value(fn)
}
