package report

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
)

// redirects gathers the redirects of a crawl, in the order of the export, and makes chains of them. Call see for each
// redirect, then lists once, and close in any case. Redirects are sorted in temporary files, so that memory does not
// grow with their number. URLs are compared by 64 bits of xxhash.
type redirects struct {
	sorts   extsort.Space // for each sort
	n       int64
	items   *extsort.Sorter[redirect] // by hash
	targets *extsort.Sorter[uint64]   // hashes of what redirects lead to, other than themselves
	firsts  *extsort.Sorter[redirect] // the first of each chain, by rank
	err     error                     // the first; lists returns it
}

// redirect is a URL that redirects.
type redirect struct {
	Hash             uint64 // of URL
	URL, To, FoundOn string
	Endless          bool  // it leads to a loop, or does not end within scope.MaxHops hops
	Rank             int64 // chains are listed in this order
}

func byHash(v *redirect, r *extsort.Record) { v.texts(r.Uint64(&v.Hash).Int64(&v.Rank)) }

func byRank(v *redirect, r *extsort.Record) { v.texts(r.Int64(&v.Rank).Uint64(&v.Hash)) }

// texts adds the fields that are not numbers.
func (v *redirect) texts(r *extsort.Record) {
	r.Text(&v.URL).Text(&v.To).Text(&v.FoundOn).Bool(&v.Endless)
}

// The rank of a redirect is its place in the export. In a loop that nothing leads to, a URL by which the crawl entered
// it comes before others, and both come after chains.
const (
	rankEntered    int64 = 1 << 61 // found as a start, a link or in a sitemap
	rankRedirected int64 = 1 << 62 // found as the target of a redirect
)

func newRedirects(sorts extsort.Space) *redirects {
	each := sorts.Part(7) // three of redirects, and two for each of two rounds
	return &redirects{sorts: each, items: extsort.New(each, byHash), firsts: extsort.New(each, byRank),
		targets: extsort.New(each, func(hash *uint64, r *extsort.Record) { r.Uint64(hash) })}
}

// close removes temporary files.
func (r *redirects) close() {
	r.items.Close()
	r.targets.Close()
	r.firsts.Close()
}

// see takes a page that redirects.
func (r *redirects) see(l *page.Line) {
	if r.err != nil {
		return
	}
	// Copies, since the strings of a page may be parts of a larger text.
	url := l.URL.String()
	item := redirect{Hash: xxhash.Sum64String(url), URL: strings.Clone(url), To: strings.Clone(l.RedirectTo),
		FoundOn: strings.Clone(l.ParentURL), Rank: r.n + rankEntered}
	item.Endless = l.Outcome == page.RedirectLoop.String() || len(l.Hops) > scope.MaxHops
	if l.Source == page.SourceName(page.SourceRedirect) {
		item.Rank = r.n + rankRedirected
	}
	r.n++
	if r.err = r.items.Add(item); r.err == nil && item.To != item.URL {
		r.err = r.targets.Add(xxhash.Sum64String(item.To))
	}
}

// lists returns the first URL of each chain, and of each loop that nothing leads to. A chain begins with a URL that no
// other redirect leads to. A loop begins with the URL by which the crawl entered it. Hops holds only the first target.
func (r *redirects) lists(ctx context.Context) (chains, loops *List[Chain], err error) {
	if err := cmp.Or(r.err, r.findFirsts(ctx)); err != nil {
		return nil, nil, fmt.Errorf("sort redirects: %w", err)
	}
	chains, loops = &List[Chain]{}, &List[Chain]{}
	for first, err := range r.firsts.Sorted(ctx) {
		if err != nil {
			return nil, nil, fmt.Errorf("sort redirects: %w", err)
		}
		list := chains
		if first.Endless {
			list = loops
		}
		list.add(Chain{first.URL, []string{first.To}, first.FoundOn})
	}
	return chains.orNil(), loops.orNil(), nil
}

// findFirsts finds the redirects that no other leads to, and one of each loop that nothing leads to.
func (r *redirects) findFirsts(ctx context.Context) error {
	loops := newRound(r)
	defer func() { loops.close() }()
	next, stop := iter.Pull2(r.targets.Sorted(ctx))
	defer stop()
	target, err, more := next()
	for item, failed := range r.items.Sorted(ctx) {
		for ; more && err == nil && target < item.Hash; target, err, more = next() {
		}
		named := 0 // how many other redirects lead to it
		for ; more && err == nil && target == item.Hash; target, err, more = next() {
			named++
		}
		switch err = cmp.Or(failed, err); {
		case err != nil:
		case named == 0:
			item.Rank %= rankEntered
			err = r.firsts.Add(item)
		case item.Endless:
			err = loops.add(hop{Item: item, Next: xxhash.Sum64String(item.To), Best: item.Rank, Joined: named > 1 ||
				item.To == item.URL})
		}
		if err != nil {
			return err
		}
	}
	for changed := true; changed && err == nil; {
		loops, changed, err = loops.double(ctx)
	}
	for h, failed := range loops.byHash.Sorted(ctx) {
		if err = cmp.Or(err, failed); err == nil && !h.Joined && h.Best == h.Item.Rank {
			err = r.firsts.Add(h.Item)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// hop is a redirect that may be a part of a loop, with what is known of the redirects that follow it.
type hop struct {
	Item   redirect
	Next   uint64 // the hash of the URL behind those that were looked at
	Best   int64  // the smallest rank of those that were looked at
	Joined bool   // one of those that were looked at is led to by several redirects: something leads into the loop
}

func byNext(h *hop, r *extsort.Record) {
	byHash(&h.Item, r.Uint64(&h.Next).Int64(&h.Best).Bool(&h.Joined))
}

// round is the hops of all loops, in two orders. Each round looks twice as far ahead as the one before.
type round struct {
	r              *redirects
	byHash, byNext *extsort.Sorter[hop]
}

func newRound(r *redirects) *round {
	byItem := func(h *hop, r *extsort.Record) { byNext(h, r.Key(h.Item.Hash)) }
	return &round{r, extsort.New(r.sorts, byItem), extsort.New(r.sorts, byNext)}
}

func (d *round) close() {
	d.byHash.Close()
	d.byNext.Close()
}

func (d *round) add(h hop) error { return cmp.Or(d.byHash.Add(h), d.byNext.Add(h)) }

// double adds to each hop what the hop at Next has looked at. It drops hops that lead out of the loops. If a round
// changes nothing, each hop knows its whole loop. The reason: no Best is larger than that of the hop at Next, so all
// Bests along the way around the loop are equal, and together these hops have looked at the whole loop. The receiver is
// empty afterwards.
func (d *round) double(ctx context.Context) (doubled *round, changed bool, err error) {
	doubled = newRound(d.r)
	next, stop := iter.Pull2(d.byHash.Sorted(ctx))
	defer stop()
	ahead, err, more := next()
	for h, failed := range d.byNext.Sorted(ctx) {
		for ; more && err == nil && ahead.Item.Hash < h.Next; ahead, err, more = next() {
		}
		switch err = cmp.Or(failed, err); {
		case err != nil:
			return doubled, false, err
		case !more || ahead.Item.Hash != h.Next:
			changed = true
			continue
		}
		before := h
		h.Next, h.Best, h.Joined = ahead.Next, min(h.Best, ahead.Best), h.Joined || ahead.Joined
		changed = changed || h.Best != before.Best || h.Joined != before.Joined
		if err := doubled.add(h); err != nil {
			return doubled, false, err
		}
	}
	return doubled, changed, err
}
