package state

import (
	"context"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/overlay"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A Page is what is known of one URL: a page or, where that is said, a sitemap.
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
	overlay *overlay.Overlay
	journal Journal
	bodies  record.Bodies
}

// Page returns what is known of one page. It sees everything committed before
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
	p, ok, err := readPage(txn, k, false)
	if err != nil {
		return Page{}, false, fmt.Errorf("read page: %w", err)
	}
	return p, ok, nil
}

// readPage reads what is known of one page or sitemap.
func readPage(txn *badger.Txn, k frontier.Key, sitemap bool) (Page, bool, error) {
	p := Page{Link: frontier.Link{Key: k}}
	found, finished := record.Families(sitemap)
	named, err := getValue(txn, record.AppendURLKey(nil, found, k), func(b []byte) (err error) {
		p.Link, err = record.DecodeDiscovery(k, b)
		return err
	})
	if err != nil {
		return p, false, err
	}
	done, err := getValue(txn, record.AppendURLKey(nil, finished, k), func(b []byte) (err error) {
		p.Finish, err = record.DecodeFinish(k, b)
		return err
	})
	return p, named || done, err
}

// Pages goes through all pages in the order of their keys, which is by host and
// does not change. It answers for what has been applied: for each URL at the
// time when it is read, which may be a while after the call. It reads in
// pieces and holds nothing open between them.
func (q *queries) Pages(ctx context.Context) iter.Seq2[Page, error] { return q.all(ctx, false) }

// all goes through all pages or all sitemaps.
func (q *queries) all(ctx context.Context, sitemaps bool) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		var after frontier.Key
		for first := true; ; first = false {
			if err := ctx.Err(); err != nil {
				yield(Page{}, err)
				return
			}
			pages, err := q.some(after, first, sitemaps)
			for _, p := range pages {
				if !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(Page{}, fmt.Errorf("read %s: %w", kindOf(sitemaps), err))
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

func kindOf(sitemaps bool) string {
	if sitemaps {
		return "sitemaps"
	}
	return "pages"
}

// some reads the next pages or sitemaps after a key, merging discoveries and
// finishes.
func (q *queries) some(after frontier.Key, first, sitemaps bool) (_ []Page, err error) {
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
	found, finished := record.Families(sitemaps)
	named := newFamilyReader(txn, found, after, first)
	defer named.it.Close()
	done := newFamilyReader(txn, finished, after, first)
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
