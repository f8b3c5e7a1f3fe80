package state

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A Sitemap is what is known of one sitemap.
type Sitemap struct {
	Page
	Vouchers []frontier.Voucher // in the order of their hosts
}

// ReadSitemaps returns what is known of sitemaps, whose keys are [frontier.SitemapKey]s.
// One that was never named has no URL. It sees everything committed before the call.
func (q *queries) ReadSitemaps(ctx context.Context, keys []frontier.Key) ([]Sitemap, error) {
	list := make([]Sitemap, len(keys))
	err := q.flush(ctx)
	if err == nil {
		err = q.read(func(txn *badger.Txn) (err error) {
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
	return each(ctx, q, frontier.Key{}, true, math.MaxUint64, true)
}

// readVouchers reads the vouchers of one sitemap. The iterator is one of the family.
func readVouchers(it *badger.Iterator, k frontier.Key) ([]frontier.Voucher, error) {
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

// CountSitemaps returns how many sitemaps of a host were ever named, of those that
// have been applied. It counts to most at the most.
func (q *queries) CountSitemaps(ctx context.Context, h frontier.HostID, most int) (int, error) {
	n := 0
	prefix := record.AppendHostKey(nil, record.FamSitemap, h)
	for _, err := range q.scan(ctx, prefix, prefix) {
		if err != nil {
			return 0, fmt.Errorf("count sitemaps: %w", err)
		}
		if n++; n >= most {
			break
		}
	}
	return n, nil
}
