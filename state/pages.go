package state

import (
	"context"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A Page is what is known of one URL.
type Page struct {
	// Link is how the URL was found. Of a key that was finished without ever
	// being named, only Link.Key is set.
	Link frontier.Link
	// Finish is nil while the URL is pending.
	Finish *frontier.Finish
}

// queries answers what a store is asked, from what is in Badger and, where the caller
// must see what it has committed, from the overlay or after waiting for the applier.
// Its exported methods are the store's.
type queries struct {
	*access
	view    *view
	overlay *overlay
	journal Journal
	bodies  record.Bodies
}

// Page returns what is known of one URL. It sees everything committed before
// the call.
func (q *queries) Page(ctx context.Context, k frontier.Key) (_ Page, _ bool, err error) {
	defer q.guard(&err)
	if err := q.flush(ctx); err != nil {
		return Page{}, false, err
	}
	if err := q.enter(); err != nil {
		return Page{}, false, err
	}
	defer q.leave()
	txn := q.view.db.NewTransaction(false)
	defer txn.Discard()
	p := Page{Link: frontier.Link{Key: k}}
	named, err := getValue(txn, record.AppendURLKey(nil, record.FamURL, k), func(b []byte) (err error) {
		p.Link, err = record.DecodeDiscovery(k, b)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page: %w", err)
	}
	done, err := getValue(txn, record.AppendURLKey(nil, record.FamFinish, k), func(b []byte) (err error) {
		p.Finish, err = record.DecodeFinish(k, b)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page: %w", err)
	}
	return p, named || done, nil
}

// Pages goes through all URLs in the order of their keys, which is by host and
// does not change. It answers for what has been applied: for each URL at the
// time when it is read, which may be a while after the call. It reads in
// pieces and holds nothing open between them.
func (q *queries) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		var after frontier.Key
		for first := true; ; first = false {
			if err := ctx.Err(); err != nil {
				yield(Page{}, err)
				return
			}
			pages, err := q.somePages(after, first)
			for _, p := range pages {
				if !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(Page{}, fmt.Errorf("read pages: %w", err))
				return
			}
			if len(pages) == 0 {
				return
			}
			after = pages[len(pages)-1].Link.Key
		}
	}
}

// pagesChunk is how many pages are read in one transaction. They are all in
// memory at once.
const pagesChunk = 512

// somePages reads the next pages after a key, merging discoveries and
// finishes.
func (q *queries) somePages(after frontier.Key, first bool) (_ []Page, err error) {
	defer q.guard(&err)
	if err := q.enter(); err != nil {
		return nil, err
	}
	defer q.leave()
	if err := q.marks.failed(); err != nil {
		return nil, err
	}
	txn := q.view.db.NewTransaction(false)
	defer txn.Discard()
	named := newFamilyReader(txn, record.FamURL, after, first)
	defer named.it.Close()
	done := newFamilyReader(txn, record.FamFinish, after, first)
	defer done.it.Close()

	pages := make([]Page, 0, pagesChunk)
	for len(pages) < pagesChunk && (named.valid || done.valid) {
		var p Page
		k := named.key
		if !named.valid || done.valid && done.key.Compare(k) < 0 {
			k = done.key
		}
		p.Link.Key = k
		isNamed, isDone := named.valid && named.key == k, done.valid && done.key == k
		if isNamed {
			err := named.it.Item().Value(func(b []byte) (err error) {
				p.Link, err = record.DecodeDiscovery(k, b)
				return err
			})
			if err != nil {
				return pages, err
			}
			named.next()
		}
		if isDone {
			err := done.it.Item().Value(func(b []byte) (err error) {
				p.Finish, err = record.DecodeFinish(k, b)
				return err
			})
			if err != nil {
				return pages, err
			}
			done.next()
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// A familyReader reads the entries of one family whose keys are URL keys.
type familyReader struct {
	it    *badger.Iterator
	key   frontier.Key
	valid bool
}

func newFamilyReader(txn *badger.Txn, family byte, after frontier.Key, first bool) *familyReader {
	r := &familyReader{it: txn.NewIterator(badger.IteratorOptions{
		Prefix: []byte{family}, PrefetchValues: true, PrefetchSize: 64,
	})}
	r.it.Seek(record.AppendURLKey(nil, family, after))
	r.look()
	if !first && r.valid && r.key == after {
		r.next()
	}
	return r
}

func (r *familyReader) next() {
	r.it.Next()
	r.look()
}

func (r *familyReader) look() {
	r.valid = r.it.Valid()
	if r.valid {
		// A key of another length would be an error of ours; it reads as zero and
		// is never equal to one that is looked for.
		r.key, _ = record.ParseURLKey(r.it.Item().Key())
	}
}
