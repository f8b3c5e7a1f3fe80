package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// Pending returns up to n links of a host that are not finished, in order, from
// after the cursor on, and the cursor to go on with. It sees everything
// committed before the call. The queue is at its end if fewer than n links
// come back. Of a link, Key, URL, Depth, Priority, Sitemap, Source, Hops, Repeats, Visit, Before and At are set;
// [Store.Page] has the rest.
func (q *queries) Pending(ctx context.Context, h weburl.HostID, after frontier.Cursor, n int) (_ []frontier.Link,
	_ frontier.Cursor, err error) {
	defer q.guard(&err)
	if err := q.flush(ctx); err != nil {
		return nil, after, err
	}
	if err := q.enter(); err != nil {
		return nil, after, err
	}
	defer q.leave()
	var links []frontier.Link
	txn := q.view.db.NewTransaction(false)
	defer txn.Discard()
	prefix := record.AppendHostKey(nil, record.FamQueue, h)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(record.AppendQueueKey(nil, h, after)); it.Valid() && len(links) < n; it.Next() {
		if err := ctx.Err(); err != nil {
			return nil, after, err
		}
		_, last, ok := record.ParseQueueKey(it.Item().Key())
		if !ok {
			return nil, after, &CorruptError{What: "queue", Reason: "a key does not decode"}
		}
		var finErr error
		err := it.Item().Value(func(b []byte) error {
			return record.ReadBlock(h, last.Priority, b, func(l *frontier.Link) bool {
				// A block made in a recovery may overlap the one before it.
				if l.At.Compare(after) <= 0 {
					return true
				}
				after = l.At
				var done bool
				if done, finErr = finished(txn, l); finErr == nil && !done {
					if finErr = addURL(txn, l); finErr == nil {
						links = append(links, *l)
					}
				}
				return finErr == nil && len(links) < n
			})
		})
		if err := errors.Join(err, finErr); err != nil {
			return nil, after, fmt.Errorf("read queue: %w", err)
		}
	}
	return links, after, nil
}

// finished reports whether the visit that a link queues is finished.
func finished(txn *badger.Txn, l *frontier.Link) (bool, error) {
	var key [record.URLKeySize]byte
	_, family := record.Families(l.Sitemap)
	if l.Visit <= 1 {
		_, err := txn.Get(record.AppendURLKey(key[:0], family, l.Key))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	// The finish that has the visit, if there is one, is the last.
	for _, family := range []byte{record.FamVisit, family} {
		var f frontier.Finish
		_, err := getValue(txn, record.AppendURLKey(key[:0], family, l.Key), func(b []byte) error {
			r := record.ValueReader(b)
			r.FinishHead(&f)
			return r.Done("finish")
		})
		if err != nil || f.Visit >= l.Visit {
			return err == nil, err
		}
	}
	return false, nil
}

// addURL gives a link of the queue its URL, if it is a later visit that was queued without.
func addURL(txn *badger.Txn, l *frontier.Link) error {
	if !l.URL.IsZero() {
		return nil
	}
	family, _ := record.Families(l.Sitemap)
	known, err := getValue(txn, record.AppendURLKey(nil, family, l.Key), func(b []byte) error {
		link, err := record.DecodeDiscovery(l.Key, b)
		l.URL = link.URL
		return err
	})
	if err == nil && !known {
		err = &CorruptError{What: "queue", Reason: "a later visit is queued of a URL that was never found"}
	}
	return err
}

// Backlogs goes through the hosts that have a queue, in order of their id, of the
// partitions from first to last, both included. It sees everything committed before
// the call.
func (q *queries) Backlogs(ctx context.Context, first, last uint8) iter.Seq2[frontier.Backlog, error] {
	return func(yield func(frontier.Backlog, error) bool) {
		if err := q.flush(ctx); err != nil {
			yield(frontier.Backlog{}, err)
			return
		}
		r := backlogReader{from: []byte{record.FamQueue, first}}
		for more := true; more; {
			err := q.read(ctx, func(txn *badger.Txn) (err error) {
				more, err = r.read(txn)
				return err
			})
			if err != nil {
				yield(frontier.Backlog{}, fmt.Errorf("read queues: %w", err))
				return
			}
			for i := range r.whole {
				if r.whole[i].Fact.Host.Partition() > last || !yield(r.whole[i], nil) {
					return
				}
			}
			r.whole = r.whole[:0]
		}
	}
}

// addBlock counts a block of a host's queue.
func addBlock(b *frontier.Backlog, priority uint8, links int) {
	if n := len(b.Levels); n == 0 || b.Levels[n-1].Priority != priority {
		b.Levels = append(b.Levels, frontier.LevelBacklog{Priority: priority})
	}
	b.Levels[len(b.Levels)-1].Links += links
}

// A backlogReader goes through the queues of all hosts.
type backlogReader struct {
	from  []byte             // the key to go on with
	whole []frontier.Backlog // the hosts that have been read to their end
	last  frontier.Backlog   // the host whose queue may go on at from; no Levels if there is none
}

// read reads scanChunk blocks. It reports whether there are more.
func (r *backlogReader) read(txn *badger.Txn) (more bool, err error) {
	cursors, facts := newHostReader(txn, record.FamCursor), newHostReader(txn, record.FamHost)
	defer cursors.it.Close()
	defer facts.it.Close()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamQueue}})
	defer it.Close()
	it.Seek(r.from)
	for range scanChunk {
		if !it.Valid() {
			r.end()
			return false, nil
		}
		h, last, ok := record.ParseQueueKey(it.Item().Key())
		if !ok {
			return false, &CorruptError{What: "queue", Reason: "a key does not decode"}
		}
		if len(r.last.Levels) == 0 || r.last.Fact.Host != h {
			r.end()
			r.last = frontier.Backlog{Fact: frontier.HostFact{Host: h}}
			if err := describe(txn, &r.last, cursors, facts, it.Item()); err != nil {
				return false, err
			}
		}
		addBlock(&r.last, last.Priority, int(it.Item().UserMeta()))
		it.Next()
	}
	if it.Valid() {
		r.from = it.Item().KeyCopy(r.from)
		return true, nil
	}
	r.end()
	return false, nil
}

// end adds the last host to those that are whole.
func (r *backlogReader) end() {
	if len(r.last.Levels) > 0 {
		r.whole = append(r.whole, r.last)
	}
	r.last = frontier.Backlog{}
}

// describe fills in what the keys of the queue do not say. Hosts are asked for in
// order, so that each family is gone through once. The block is the host's first.
func describe(txn *badger.Txn, b *frontier.Backlog, cursors, facts *hostReader, block *badger.Item) error {
	h := b.Fact.Host
	if cursors.find(h) {
		err := cursors.it.Item().Value(func(v []byte) error {
			r := record.ValueReader(v)
			b.Low = r.Cursor()
			return r.Done("cursor")
		})
		if err != nil {
			return err
		}
	}
	if facts.find(h) {
		err := facts.it.Item().Value(func(v []byte) (err error) {
			b.Fact, err = record.DecodeHost(h, v)
			return err
		})
		if err != nil {
			return err
		}
	}
	if b.Fact.Name != "" {
		return nil
	}
	// No fact about the host was ever committed: its links have its name.
	_, last, _ := record.ParseQueueKey(block.Key())
	return block.Value(func(v []byte) (err error) {
		decodeErr := record.ReadBlock(h, last.Priority, v, func(l *frontier.Link) bool {
			err = addURL(txn, l)
			b.Fact.Name = l.URL.Host()
			return false
		})
		return errors.Join(decodeErr, err)
	})
}

// A hostReader looks up hosts in one family, in order of their ids.
type hostReader struct {
	it     *badger.Iterator
	key    []byte
	sought bool
}

// nearHosts is how many entries are passed over before a search is cheaper.
const nearHosts = 16

func newHostReader(txn *badger.Txn, family byte) *hostReader {
	return &hostReader{it: txn.NewIterator(badger.IteratorOptions{Prefix: []byte{family}}), key: []byte{family}}
}

// find leaves the iterator at the first entry of a host, which must not come
// before the last one looked for, and reports whether there is one.
func (r *hostReader) find(h weburl.HostID) bool {
	r.key = record.AppendHostKey(r.key[:0], r.key[0], h)
	for n := 0; r.sought && n < nearHosts; n++ {
		if !r.it.Valid() {
			return false
		}
		if bytes.Compare(r.it.Item().Key(), r.key) >= 0 {
			return bytes.HasPrefix(r.it.Item().Key(), r.key)
		}
		r.it.Next()
	}
	r.sought = true
	r.it.Seek(r.key)
	return r.it.ValidForPrefix(r.key)
}

// Seen sets out[i] to whether keys[i] was ever named by a record committed
// before the call.
func (q *queries) Seen(ctx context.Context, keys []weburl.Key, out []bool) (err error) {
	defer q.guard(&err)
	if len(keys) != len(out) {
		return fmt.Errorf("seen: %d keys and room for %d answers", len(keys), len(out))
	}
	if err := q.enter(); err != nil {
		return err
	}
	defer q.leave()
	if err := q.failed(); err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	ask := make([]int32, 0, len(keys))
	for i, k := range keys {
		out[i] = q.overlay.HasLink(k)
		if !out[i] {
			ask = append(ask, int32(i))
		}
	}
	if len(ask) == 0 {
		return nil
	}
	// Neighbouring keys share blocks of Badger's tables.
	slices.SortFunc(ask, func(a, b int32) int { return keys[a].Compare(keys[b]) })
	txn := q.view.newest.take()
	defer q.view.newest.drop(txn)
	var key [record.URLKeySize]byte
	for n, i := range ask {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, family := range []byte{record.FamURL, record.FamSitemap} {
			_, err := txn.Get(record.AppendURLKey(key[:0], family, keys[i]))
			if err == nil {
				out[i] = true
				break
			}
			if !errors.Is(err, badger.ErrKeyNotFound) {
				return fmt.Errorf("seen: %w", err)
			}
		}
	}
	return nil
}

// Host returns the latest fact about a host.
func (q *queries) Host(_ context.Context, h weburl.HostID) (frontier.HostFact, bool, error) {
	if f, ok := q.overlay.Host(h); ok {
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
func (q *queries) Origin(_ context.Context, h weburl.HostID, origin string) (frontier.OriginFact, bool, error) {
	if f, ok := q.overlay.Origin(origin); ok {
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

// OriginsOf goes through what is known of the origins of some hosts, from first to last, and returns those that are
// chosen. It answers for what has been applied.
func (q *queries) OriginsOf(ctx context.Context, first, last weburl.HostID,
	choose func(*frontier.OriginFact) bool) (chosen []string, err error) {
	err = q.read(ctx, func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamOrigin}})
		defer it.Close()
		for it.Seek(record.AppendHostKey(nil, record.FamOrigin, first)); it.Valid() && ctx.Err() == nil; it.Next() {
			host, origin, ok := record.ParseOriginKey(it.Item().Key())
			if !ok {
				return &CorruptError{What: "origin fact", Reason: "its key does not decode"}
			}
			if host > last {
				break
			}
			err := it.Item().Value(func(b []byte) error {
				f, err := q.bodies.DecodeOrigin(host, origin, b)
				if err == nil && choose(&f) {
					chosen = append(chosen, origin)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read origin facts: %w", err)
	}
	return chosen, nil
}

// get reads one entry, if it is there. The value is valid during the call.
func (q *queries) get(key []byte, fn func(value []byte) error) (found bool, err error) {
	err = q.readNewest(func(txn *badger.Txn) (err error) {
		found, err = getValue(txn, key, fn)
		return err
	})
	return found, err
}

// readNewest calls fn with the transaction that readers share, which shows all that is applied. It is for short reads.
func (q *queries) readNewest(fn func(*badger.Txn) error) error {
	return q.use(func() error {
		txn := q.view.newest.take()
		defer q.view.newest.drop(txn)
		return fn(txn.Txn)
	})
}

// read calls fn with a transaction of its own, unless ctx has ended.
func (q *queries) read(ctx context.Context, fn func(*badger.Txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.use(func() error {
		txn := q.view.db.NewTransaction(false)
		defer txn.Discard()
		return fn(txn)
	})
}

// use calls fn, which reads from Badger, unless the store is closed or has failed.
func (q *queries) use(fn func() error) (err error) {
	defer q.guard(&err)
	if err := q.enter(); err != nil {
		return err
	}
	defer q.leave()
	if err := q.failed(); err != nil {
		return err
	}
	return fn()
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
