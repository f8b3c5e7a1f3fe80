package state

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/overlay"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A Page is what is known of one URL: a page or, where that is said, a sitemap.
type Page struct {
	// Link is how the URL was found. If the key was finished and never named, only Link.Key is set.
	Link frontier.Link
	// Finish is the last one, nil while there is none. Its Facts are those that hold now: the facts of an earlier
	// visit, if this one kept them.
	Finish *frontier.Finish
	// VisitFacts are the facts of the last visit alone, if it kept earlier ones.
	VisitFacts []byte
	// FactsGeneration is the generation in which Finish.Facts were recorded, and FactsAt is the time of the visit that
	// found them.
	FactsGeneration uint32
	FactsAt         time.Time
	// Linked and Listed say in which generation a page last linked to the URL, and a sitemap last listed it. What
	// Link.Source says in generation 0 is not included.
	Linked, Listed NamedIn
}

// NamedIn is when a URL was last named. It is zero if that is not on record.
type NamedIn struct {
	Named      bool
	Generation uint32
	LastMod    time.Time // as the sitemap gives it
}

// queries answers the reading calls of a store from Badger. Where a caller must see what it has committed, the answer
// also comes from the overlay, or after waiting for the applier. Its exported methods are the store's.
type queries struct {
	*access
	view    *view
	overlay *overlay.Overlay
	journal Journal
	bodies  record.Bodies
}

// Page returns what is known of one page. It sees everything committed before
// the call.
func (q *queries) Page(ctx context.Context, k weburl.Key) (Page, bool, error) {
	if err := q.flush(ctx); err != nil {
		return Page{}, false, err
	}
	return readApplied(q, func(txn *badger.Txn) (Page, bool, error) { return readPage(txn, k, false) })
}

// IsListed reports whether a sitemap lists a URL, by what is applied.
func IsListed(s *Store, k weburl.Key) (bool, error) {
	_, ok, err := readApplied(s.queries, func(txn *badger.Txn) (p Page, ok bool, err error) {
		ok, err = getValue(txn, record.AppendNamedKey(nil, k, record.NamedListed), func([]byte) error { return nil })
		return p, ok, err
	})
	return ok, err
}

// Before returns what was recorded of a page before the given visit, which is not finished: how the URL was found and
// named is left out, so that a recrawl reads less. It waits for the applier only if the previous visit is not applied
// yet.
func (q *queries) Before(ctx context.Context, k weburl.Key, visit uint32) (Page, bool, error) {
	for waited := false; ; waited = true {
		p, ok, err := readApplied(q, func(txn *badger.Txn) (Page, bool, error) {
			p := Page{Link: frontier.Link{Key: k}}
			ok, err := p.readFinishes(txn, record.FamFinish, visit)
			return p, ok, err
		})
		if err != nil || waited || ok && p.Finish != nil && max(1, p.Finish.Visit)+1 >= visit {
			return p, ok, err
		}
		if err := q.flush(ctx); err != nil {
			return Page{}, false, err
		}
	}
}

// Found returns how a page was found, if it is known, as far as records have been applied.
func (q *queries) Found(k weburl.Key) (frontier.Link, bool, error) {
	p, ok, err := readApplied(q, func(txn *badger.Txn) (p Page, ok bool, err error) {
		p.Link.Key = k
		ok, err = getValue(txn, record.AppendURLKey(nil, record.FamURL, k), p.readLink)
		return p, ok, err
	})
	return p.Link, ok, err
}

// readApplied reads one page, as far as its records have been applied.
func readApplied(q *queries, read func(*badger.Txn) (Page, bool, error)) (p Page, ok bool, err error) {
	err = q.readNewest(func(txn *badger.Txn) (err error) {
		p, ok, err = read(txn)
		return err
	})
	if err != nil {
		return Page{}, false, fmt.Errorf("read page: %w", err)
	}
	return p, ok, nil
}

// readPage reads what is known of one page or sitemap.
func readPage(txn *badger.Txn, k weburl.Key, sitemap bool) (Page, bool, error) {
	p := Page{Link: frontier.Link{Key: k}}
	found, finished := record.Families(sitemap)
	named, err := getValue(txn, record.AppendURLKey(nil, found, k), p.readLink)
	if err != nil {
		return p, false, err
	}
	done, err := p.readFinishes(txn, finished, math.MaxUint32)
	for _, flag := range []byte{record.NamedListed, record.NamedLinked} {
		if err == nil {
			_, err = getValue(txn, record.AppendNamedKey(nil, k, flag),
				func(b []byte) error { return p.readNamed(flag, b) })
		}
	}
	return p, named || done, err
}

// readFinishes reads the last finish before a visit, and the facts that hold. Link.Key is set; the family is that of
// pages or sitemaps.
func (p *Page) readFinishes(txn *badger.Txn, family byte, visit uint32) (bool, error) {
	done, err := getValue(txn, record.AppendURLKey(nil, family, p.Link.Key), p.readFinish)
	if err == nil && done && max(1, p.Finish.Visit)+1 < visit { // else that finish is the last one
		_, err = getValue(txn, record.AppendURLKey(nil, record.FamVisit, p.Link.Key), p.readKept)
	}
	return done, err
}

// readLink takes the value of a u or s entry. Link.Key is set.
func (p *Page) readLink(b []byte) (err error) {
	p.Link, err = record.DecodeDiscovery(p.Link.Key, b)
	return err
}

// readFinish takes the value of an f or t entry.
func (p *Page) readFinish(b []byte) (err error) {
	if p.Finish, err = record.DecodeFinish(p.Link.Key, b); err == nil {
		p.FactsGeneration, p.FactsAt = p.Finish.Generation, p.Finish.CheckedAt
	}
	return err
}

// readKept takes the value of a v entry, after that of the f or t entry. It says nothing
// if a later visit did not keep the facts.
func (p *Page) readKept(b []byte) error {
	last, err := record.DecodeFinish(p.Link.Key, b)
	if err != nil || p.Finish == nil || last.Visit < p.Finish.Visit {
		return err
	}
	p.VisitFacts, last.Facts = last.Facts, p.Finish.Facts
	p.Finish = last
	return nil
}

// readNamed takes the value of an n entry.
func (p *Page) readNamed(flag byte, b []byte) (err error) {
	in := &p.Linked
	if flag == record.NamedListed {
		in = &p.Listed
	}
	in.Named = true
	in.Generation, in.LastMod, err = record.DecodeNamed(b)
	return err
}

// Pages goes through all pages in the order of their keys, which is by host and
// does not change. It answers for what has been applied: for each URL at the
// time when it is read, which may be a while after the call. It reads in
// pieces and holds nothing open between them.
func (q *queries) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return q.PagesOf(ctx, 0, math.MaxUint64)
}

// PagesOf goes through the pages of some hosts, from first to last, as Pages does.
func (q *queries) PagesOf(ctx context.Context, first, last weburl.HostID) iter.Seq2[Page, error] {
	return decoded(each(ctx, q, weburl.Key{Host: first}, true, last, false), false)
}

// PagesAfter goes through the pages behind a key, as Pages does.
func (q *queries) PagesAfter(ctx context.Context, k weburl.Key) iter.Seq2[Page, error] {
	return decoded(each(ctx, q, k, false, math.MaxUint64, false), false)
}

// RawPages goes through all pages as Pages does. Each is valid until the next.
func (q *queries) RawPages(ctx context.Context) iter.Seq2[RawPage, error] {
	return each(ctx, q, weburl.Key{}, true, math.MaxUint64, false)
}

// A Sitemap is what is known of one sitemap.
type Sitemap struct {
	Page
	Vouchers []frontier.Voucher // in the order of their hosts
}

// Renewed stands for a host in the vouchers of a sitemap: from the visit of this voucher on, earlier ones do not count.
const Renewed weburl.HostID = 0

// Vouched returns the number of the last visit of a sitemap that was queued, and the hosts that vouch for it in that
// visit.
func (m *Sitemap) Vouched() (visit uint32, hosts []weburl.HostID) {
	visit = 1
	first := uint32(0)
	for _, v := range m.Vouchers {
		visit = max(visit, v.Visit)
		if v.Host == Renewed {
			first = v.Visit
		}
	}
	for _, v := range m.Vouchers {
		if v.Host != Renewed && v.Visit >= first {
			hosts = append(hosts, v.Host)
		}
	}
	return visit, hosts
}

// ReadSitemaps returns what is known of sitemaps, whose keys are [frontier.SitemapKey]s.
// One that was never named has no URL. It sees everything committed before the call.
func (q *queries) ReadSitemaps(ctx context.Context, keys []weburl.Key) ([]Sitemap, error) {
	list := make([]Sitemap, len(keys))
	err := q.flush(ctx)
	if err == nil {
		err = q.read(ctx, func(txn *badger.Txn) (err error) {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamVoucher}})
			defer it.Close()
			for i, k := range keys {
				if list[i].Page, _, err = readPage(txn, k, true); err == nil {
					list[i].Vouchers, err = readVouchers(it, k)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read sitemaps: %w", err)
	}
	return list, nil
}

// Sitemaps goes through all sitemaps as [Store.Pages] goes through pages.
func (q *queries) Sitemaps(ctx context.Context) iter.Seq2[Page, error] {
	return q.SitemapsOf(ctx, 0, math.MaxUint64)
}

// SitemapsOf goes through the sitemaps of some hosts, from first to last, as Sitemaps does.
func (q *queries) SitemapsOf(ctx context.Context, first, last weburl.HostID) iter.Seq2[Page, error] {
	return decoded(each(ctx, q, weburl.Key{Host: first}, true, last, true), true)
}

// readVouchers reads the vouchers of one sitemap. The iterator is one of the family.
func readVouchers(it *badger.Iterator, k weburl.Key) ([]frontier.Voucher, error) {
	var list []frontier.Voucher
	prefix := record.AppendURLKey(nil, record.FamVoucher, k)
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		v, ok := record.ParseVoucherKey(it.Item().Key())
		if !ok {
			return nil, &CorruptError{What: "voucher", Reason: "its key does not decode"}
		}
		err := it.Item().Value(func(b []byte) (err error) {
			v.Visit, err = record.DecodeVoucher(b)
			return err
		})
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// CountSitemaps returns how many sitemaps of a host were ever named, as far as records have been applied. It stops
// counting when it reaches most.
func (q *queries) CountSitemaps(ctx context.Context, h weburl.HostID, most int) (int, error) {
	n := 0
	err := q.read(ctx, func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: record.AppendHostKey(nil, record.FamSitemap, h)})
		defer it.Close()
		for it.Rewind(); it.Valid() && n < most && ctx.Err() == nil; it.Next() {
			err := it.Item().Value(func(b []byte) error {
				if !record.IsCheck(b) {
					n++
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("count sitemaps: %w", err)
	}
	return n, nil
}

// A Change is what a visit of a URL changed. Change and Differences are as in [frontier.Finish].
type Change struct {
	Key         weburl.Key
	Generation  uint32
	Change      uint8
	Differences []byte
}

// Changes goes through what visits of a generation and of later ones changed, in the order of keys and then of
// generations. It answers for what has been applied. If several visits in one generation changed a URL, the last of
// them counts.
func (q *queries) Changes(ctx context.Context, since uint32) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		from := []byte{record.FamChange}
		for from != nil {
			var list []Change
			err := q.read(ctx, func(txn *badger.Txn) (err error) {
				list, from, err = someChanges(txn, from, since)
				return err
			})
			for _, c := range list {
				if !yield(c, nil) {
					return
				}
			}
			if err != nil {
				yield(Change{}, fmt.Errorf("read changes: %w", err))
				return
			}
		}
	}
}

// someChanges reads some changes, from a key on. It returns the key to go on with, nil
// at the end.
func someChanges(txn *badger.Txn, from []byte, since uint32) (list []Change, next []byte, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{record.FamChange}})
	defer it.Close()
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		if n++; n > pagesChunk {
			return list, it.Item().KeyCopy(nil), nil
		}
		k, generation, ok := record.ParseChangeKey(it.Item().Key())
		if !ok {
			return list, nil, &CorruptError{What: "change", Reason: "its key does not decode"}
		}
		if generation < since {
			continue
		}
		c := Change{Key: k, Generation: generation}
		err := it.Item().Value(func(b []byte) (err error) {
			c.Change, c.Differences, err = record.DecodeDifferences(b)
			return err
		})
		if err != nil {
			return list, nil, err
		}
		list = append(list, c)
	}
	return list, nil, nil
}
