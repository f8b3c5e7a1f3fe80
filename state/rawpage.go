package state

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/state/internal/record"
)

// A RawPage is a [Page] as it is stored: its key, then each value with a byte before it that says what it is, and its
// length.
type RawPage []byte

// The kinds of values in a RawPage. The values of a page are in this order.
const (
	rawFound byte = iota
	rawFinish
	rawKept
	rawListed
	rawLinked
)

// Key is the key of the page.
func (b RawPage) Key() weburl.Key {
	k, _ := weburl.ParseKey(b[:min(len(b), weburl.KeySize)])
	return k
}

// URL is the URL of the page; zero if the key was finished and never named.
func (b RawPage) URL() (u weburl.URL, err error) {
	err = b.values(func(kind byte, value []byte) (err error) {
		if kind == rawFound {
			u, err = record.DiscoveryURL(value)
		}
		return err
	})
	return u, err
}

// Decode decodes the page.
func (b RawPage) Decode() (Page, error) {
	p := Page{Link: frontier.Link{Key: b.Key()}}
	err := b.values(func(kind byte, value []byte) error {
		switch kind {
		case rawFound:
			return p.readLink(value)
		case rawFinish:
			return p.readFinish(value)
		case rawKept:
			return p.readKept(value)
		case rawListed:
			return p.readNamed(record.NamedListed, value)
		default:
			return p.readNamed(record.NamedLinked, value)
		}
	})
	return p, err
}

// values passes each value to fn.
func (b RawPage) values(fn func(kind byte, value []byte) error) error {
	r := record.Reader{B: b}
	for r.Take(weburl.KeySize); len(r.B) > 0; {
		kind, value := r.U8(), r.Bytes()
		if r.Bad {
			break
		}
		if err := fn(kind, value); err != nil {
			return err
		}
	}
	return r.Done("page")
}

// appendRaw appends a value of a page.
func appendRaw(dst []byte, kind byte, value []byte) []byte {
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(value)))
	return append(dst, value...)
}

// decoded decodes pages or sitemaps.
func decoded(pages iter.Seq2[RawPage, error], sitemaps bool) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for raw, err := range pages {
			var p Page
			if err == nil {
				if p, err = raw.Decode(); err != nil {
					err = fmt.Errorf("read %s: %w", kindOf(sitemaps), err)
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// each goes through the pages or the sitemaps from a key on, up to those of the last host. It begins with the key
// itself if including is true, and else behind it.
func each(ctx context.Context, q *queries, from weburl.Key, including bool, last weburl.HostID,
	sitemaps bool) iter.Seq2[RawPage, error] {
	return func(yield func(RawPage, error) bool) {
		after := from
		var some rawPages
		for first := including; ; first = false {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			err := q.read(ctx, func(txn *badger.Txn) error {
				_, size := q.view.db.Size()
				return some.read(newPageMerge(txn, sitemaps, size >= fetchAhead), after, first)
			})
			start := 0
			for _, end := range some.ends {
				p := RawPage(some.buf[start:end])
				start, after = end, p.Key()
				if after.Host > last || !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", kindOf(sitemaps), err))
				return
			}
			if len(some.ends) == 0 {
				return
			}
		}
	}
}

// fetchAhead is the size in bytes from which on a value log is read ahead, with one goroutine for each value. That is
// faster if values come from the disk. A smaller log is in the operating system's cache after a crawl, or soon after it
// is read: there the goroutines took an eighth of the CPU of an export of 50,000 pages.
const fetchAhead = 1 << 30

// One transaction reads pages until there are pagesChunk of them, or pagesBytes. They are all in memory at once.
const (
	pagesChunk = 512
	pagesBytes = 1 << 20
)

func kindOf(sitemaps bool) string {
	if sitemaps {
		return "sitemaps"
	}
	return "pages"
}

// rawPages are pages or sitemaps that one transaction has read.
type rawPages struct {
	buf  []byte
	ends []int // of each page in buf
}

// read reads the next pages or sitemaps after a key, and that of the key itself if first is true. It closes the merge.
// If it fails, those that it read before are in b.
func (b *rawPages) read(m *pageMerge, after weburl.Key, first bool) (err error) {
	defer m.close()
	m.seek(after, first)
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	for len(b.ends) < pagesChunk && len(b.buf) < pagesBytes && m.more() {
		if b.buf, err = m.next(b.buf); err != nil {
			return err
		}
		b.ends = append(b.ends, len(b.buf))
	}
	return nil
}

// A pageMerge reads pages or sitemaps from all families that say something about them,
// in the order of their keys.
type pageMerge struct {
	found, done familyReader // either may lack a key
	kept, named familyReader // of pages and sitemaps
}

func newPageMerge(txn *badger.Txn, sitemaps, fetchAhead bool) *pageMerge {
	found, done := record.Families(sitemaps)
	return &pageMerge{
		found: newFamilyReader(txn, found, fetchAhead), done: newFamilyReader(txn, done, fetchAhead),
		kept: newFamilyReader(txn, record.FamVisit, false), named: newFamilyReader(txn, record.FamNamed, false),
	}
}

// seek goes to a key, or behind it if first is false.
func (m *pageMerge) seek(after weburl.Key, first bool) {
	for _, r := range []*familyReader{&m.found, &m.done, &m.kept, &m.named} {
		r.seek(after)
		for !first && r.valid && r.key == after {
			r.next()
		}
	}
}

func (m *pageMerge) close() {
	for _, r := range []*familyReader{&m.found, &m.done, &m.kept, &m.named} {
		r.it.Close()
	}
}

func (m *pageMerge) more() bool { return m.found.valid || m.done.valid }

// next appends the next RawPage.
func (m *pageMerge) next(dst []byte) ([]byte, error) {
	k := m.found.key
	if !m.found.valid || m.done.valid && m.done.key.Compare(k) < 0 {
		k = m.done.key
	}
	dst = k.Append(dst)
	take := func(r *familyReader, kind byte) error {
		return r.take(k, func(value []byte) error {
			// Badger returns an empty value for what it could not read. ValueReader finds that here, where the error
			// can say what failed.
			r := record.ValueReader(value)
			dst = appendRaw(dst, kind, value)
			return r.Done("page")
		})
	}
	err := take(&m.found, rawFound)
	if err == nil {
		err = take(&m.done, rawFinish)
	}
	if err == nil {
		err = take(&m.kept, rawKept)
	}
	for err == nil && m.named.skipTo(k) {
		kind := rawLinked
		if _, flag, _ := record.ParseNamedKey(m.named.it.Item().Key()); flag == record.NamedListed {
			kind = rawListed
		}
		err = take(&m.named, kind)
	}
	return dst, err
}

// A familyReader reads the entries of one family whose keys begin with URL keys.
type familyReader struct {
	it     *badger.Iterator
	family byte
	key    weburl.Key
	valid  bool
}

// newFamilyReader returns a reader; seek must be called first. If fetch is set, values are read ahead:
// a few, since one may have megabytes.
func newFamilyReader(txn *badger.Txn, family byte, fetch bool) familyReader {
	return familyReader{family: family, it: txn.NewIterator(badger.IteratorOptions{
		Prefix: []byte{family}, PrefetchValues: fetch, PrefetchSize: 16,
	})}
}

func (r *familyReader) seek(k weburl.Key) {
	r.it.Seek(record.AppendURLKey(nil, r.family, k))
	r.look()
}

func (r *familyReader) next() {
	r.it.Next()
	r.look()
}

func (r *familyReader) look() {
	r.valid = r.it.Valid()
	if r.valid {
		// A shorter key would be a bug in this package. It reads as zero, and no key that is looked for is zero.
		b := r.it.Item().Key()
		r.key, _ = record.ParseURLKey(b[:min(len(b), record.URLKeySize)])
	}
}

// skipTo goes on to a key, and reports whether there is an entry of it.
func (r *familyReader) skipTo(k weburl.Key) bool {
	for r.valid && r.key.Compare(k) < 0 {
		r.next()
	}
	return r.valid && r.key == k
}

// take passes the value of a key to fn, if there is one, and goes on.
func (r *familyReader) take(k weburl.Key, fn func(value []byte) error) error {
	if !r.skipTo(k) {
		return nil
	}
	if err := r.it.Item().Value(fn); err != nil {
		return err
	}
	r.next()
	return nil
}
