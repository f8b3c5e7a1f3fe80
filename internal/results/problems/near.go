package problems

import (
	"context"
	"iter"
	"math/bits"

	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
)

// likeness is a page with a simhash.
type likeness struct {
	Sim, Text uint64 // simhash, and hash, of the text
	URL       string
	Line      int64
}

func (l *likeness) fields(r *extsort.Record) {
	r.Uint64(&l.Sim).Uint64(&l.Text).Text(&l.URL).Int64(&l.Line)
}

// pair says that the page URL is near the pages with the simhash Of.
type pair struct {
	Of   uint64
	Text uint64 // hash of the text of URL
	URL  string
}

func (p *pair) fields(r *extsort.Record) { r.Uint64(&p.Of).Text(&p.URL).Uint64(&p.Text) }

// nearness finds pages whose simhashes differ in few bits, without comparing all pairs. If two values differ in at most
// 3 bits, at least one of their four parts is equal. So the values are sorted by each part, and compared with those
// that have the same part. If too many values have the same part, their other bits are divided into four parts in the
// same way, and so on. DESIGN.md has the costs.
type nearness struct {
	o     *Options
	pages *extsort.Sorter[likeness]
	again *extsort.Sorter[likeness] // the same pages for a second pass
	pairs *extsort.Sorter[pair]
}

func newNearness(o *Options) *nearness {
	return &nearness{o: o, pages: extsort.New(o.Sorts, (*likeness).fields),
		again: extsort.New(o.Sorts, (*likeness).fields), pairs: extsort.New(o.Sorts, (*pair).fields)}
}

func (n *nearness) close() {
	n.pages.Close()
	n.again.Close()
	n.pairs.Close()
}

func (n *nearness) add(l likeness) error { return n.pages.Add(l) }

// join reports the pages that are near others.
func (n *nearness) join(ctx context.Context, add func(c Code, url string, line int64, value string,
	related ...string)) error {
	distinct := newDivision(n, ^uint64(0))
	defer distinct.close()
	for first, err := range n.firsts(ctx) {
		if err != nil {
			return err
		}
		if err := distinct.add(first); err != nil {
			return err
		}
	}
	if err := distinct.search(ctx); err != nil {
		return err
	}
	next, stop := iter.Pull2(n.pairs.Sorted(ctx))
	defer stop()
	p, failed, more := next()
	var near []pair // of the present simhash
	var sim uint64
	for l, err := range n.again.Sorted(ctx) {
		if err != nil {
			return err
		}
		if near == nil || l.Sim != sim {
			sim, near = l.Sim, []pair{}
			for ; more && failed == nil && p.Of < sim; p, failed, more = next() {
			}
			for ; more && failed == nil && p.Of == sim; p, failed, more = next() {
				if k := len(near); len(near) <= maxAlike && (k == 0 || near[k-1].URL != p.URL) {
					near = append(near, p)
				}
			}
			if failed != nil {
				return failed
			}
		}
		var related []string
		for i := range near {
			if near[i].Text != l.Text && len(related) < maxAlike {
				related = append(related, near[i].URL)
			}
		}
		if len(related) > 0 {
			add(DuplicateNear, l.URL, l.Line, page.Hash(l.Sim).String(), related...)
		}
	}
	return nil
}

// firsts yields the first page of each simhash. It notes pages with the same simhash and different texts as pairs.
func (n *nearness) firsts(ctx context.Context) iter.Seq2[likeness, error] {
	return func(yield func(likeness, error) bool) {
		var first, last likeness // of the present simhash: the first page, and the first page of the present text
		texts := 0               // of the present simhash
		for l, err := range n.pages.Sorted(ctx) {
			isNew := texts == 0 || l.Sim != last.Sim
			if err == nil {
				err = n.again.Add(l)
			}
			switch {
			case err != nil:
			case isNew:
				first, texts = l, 1
			case l.Text != last.Text:
				if texts++; texts == 2 {
					err = n.pairs.Add(pair{first.Sim, first.Text, first.URL})
				}
				if err == nil && texts <= maxAlike+1 {
					err = n.pairs.Add(pair{l.Sim, l.Text, l.URL})
				}
			}
			last = l
			if (isNew || err != nil) && !yield(l, err) {
				return
			}
		}
	}
}

// maxCompared is how many values are compared each with each.
const maxCompared = 512

// maxNear is how many pairs are noted of one value in one comparison. That there is one is enough to report the page.
const maxNear = 2

// division holds values that are equal outside of a mask, sorted by four parts of the mask.
type division struct {
	n     *nearness
	mask  uint64
	parts [4]uint64 // the mask in parts
	sorts [4]*extsort.Sorter[likeness]
	// the bits that are set in some and in all of the values
	some, all uint64
}

func newDivision(n *nearness, mask uint64) *division {
	d := &division{n: n, mask: mask, all: ^uint64(0)}
	left, size := mask, bits.OnesCount64(mask)
	for i := range d.parts {
		for range (size + i) / 4 {
			low := left & -left
			d.parts[i] |= low
			left &^= low
		}
		part := d.parts[i]
		d.sorts[i] = extsort.New(n.o.Sorts.Part(len(d.sorts)),
			func(l *likeness, r *extsort.Record) { l.fields(r.Key(l.Sim & part)) })
	}
	return d
}

func (d *division) close() {
	for _, s := range d.sorts {
		s.Close()
	}
}

func (d *division) add(l likeness) error {
	d.some, d.all = d.some|l.Sim, d.all&l.Sim
	for _, s := range d.sorts {
		if err := s.Add(l); err != nil {
			return err
		}
	}
	return nil
}

// search notes the pairs among the values.
func (d *division) search(ctx context.Context) error {
	if differ := d.mask & d.some &^ d.all; differ != d.mask && d.sorts[0].Len() > maxCompared {
		return d.narrow(ctx, differ)
	}
	for i, s := range d.sorts {
		part := d.parts[i]
		var alike []likeness  // values that have the part in common
		var further *division // the same, if they are too many
		end := func() (err error) {
			if further == nil {
				return d.n.compare(alike)
			}
			defer further.close()
			return further.search(ctx)
		}
		for l, err := range s.Sorted(ctx) {
			if err != nil {
				return err
			}
			if len(alike) > 0 && l.Sim&part != alike[0].Sim&part {
				if err := end(); err != nil {
					return err
				}
				alike, further = alike[:0], nil
			}
			if further == nil && len(alike) < maxCompared || len(alike) == 0 {
				alike = append(alike, l)
				continue
			}
			if further == nil {
				further = newDivision(d.n, d.mask&^part)
				for _, l := range alike {
					if err := further.add(l); err != nil {
						return err
					}
				}
				alike = alike[:1] // which has the part
			}
			if err := further.add(l); err != nil {
				return err
			}
		}
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

// narrow searches the values again with a mask of the bits in which they differ. All values would have each part of the
// others in common, and be divided anew for each.
func (d *division) narrow(ctx context.Context, mask uint64) error {
	further := newDivision(d.n, mask)
	defer further.close()
	for l, err := range d.sorts[0].Sorted(ctx) {
		if err == nil {
			err = further.add(l)
		}
		if err != nil {
			return err
		}
	}
	d.close()
	return further.search(ctx)
}

// compare notes which of the values are near each other.
func (n *nearness) compare(values []likeness) error {
	counts := make([]int, len(values))
	for i := range values {
		for k := range i {
			if counts[i] >= maxNear && counts[k] >= maxNear ||
				bits.OnesCount64(values[i].Sim^values[k].Sim) > NearDistance {
				continue
			}
			for _, p := range [2][2]int{{i, k}, {k, i}} {
				of, other := p[0], &values[p[1]]
				if counts[of]++; counts[of] > maxNear {
					continue
				}
				if err := n.pairs.Add(pair{values[of].Sim, other.Text, other.URL}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
