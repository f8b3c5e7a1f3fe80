package problems

import (
	"context"
	"iter"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/extsort"
)

// Kinds of texts that only one page should have.
const (
	kindTitle       uint8 = iota
	kindDescription       // compared within one host, like the title
	kindWhole             // the hash of the whole text, which only one page of all hosts should have
	numKinds
)

// duplicateOf is the problem of pages that have the same text of a kind.
func duplicateOf(kind uint8) Code {
	return [numKinds]Code{TitleDuplicate, DescriptionDuplicate, DuplicateExact}[kind]
}

// hashed is the hash of a text of a page.
type hashed struct {
	Kind uint8
	Hash uint64 // of the host, if it matters, and of the text
	Line int64
}

func byHash(h *hashed, r *extsort.Record) { r.Byte(&h.Kind).Uint64(&h.Hash).Int64(&h.Line) }

func byLine(h *hashed, r *extsort.Record) { r.Int64(&h.Line).Byte(&h.Kind).Uint64(&h.Hash) }

// texts are the texts of a page that no other page should have. An empty text is not compared.
type texts struct {
	Line  int64
	URL   string
	Texts [numKinds]string // by kind
}

// member is a page that has a text which other pages may have too.
type member struct {
	Code Code
	Hash uint64 // of the host, if it matters, and of Text
	Text string
	URL  string
	Line int64
}

func (m *member) fields(r *extsort.Record) {
	r.Byte((*uint8)(&m.Code)).Uint64(&m.Hash).Text(&m.Text).Text(&m.URL).Int64(&m.Line)
}

// duplicates finds the texts that several pages have. Most texts belong to one page only, so first only hashes are
// compared.
type duplicates struct {
	hashes   *extsort.Sorter[hashed]
	repeated *extsort.Sorter[hashed] // those that another page has too, by line
	texts    *extsort.Sorter[texts]  // by line; they are added in this order
	line     int64                   // the line whose texts are read; others are skipped
	members  *extsort.Sorter[member]
}

func newDuplicates(o *Options) *duplicates {
	d := &duplicates{hashes: extsort.New(o.Sorts, byHash), repeated: extsort.New(o.Sorts, byLine),
		members: extsort.New(o.Sorts, (*member).fields)}
	d.texts = extsort.New(o.Sorts, func(t *texts, r *extsort.Record) {
		if r.Int64(&t.Line); r.Reads() && t.Line != d.line {
			return
		}
		r.Text(&t.URL)
		for i := range t.Texts {
			r.Text(&t.Texts[i])
		}
	})
	return d
}

func (d *duplicates) close() {
	d.hashes.Close()
	d.repeated.Close()
	d.texts.Close()
	d.members.Close()
}

// add takes the texts of a page. Those of a kind that is not looked for are empty.
func (d *duplicates) add(t texts, host string) error {
	if t.Texts == [numKinds]string{} {
		return nil
	}
	for i, text := range t.Texts {
		if text == "" {
			continue
		}
		kind := uint8(i)
		h := xxhash.New()
		if kind != kindWhole {
			_, _ = h.WriteString(host)
		}
		_, _ = h.WriteString("\n")
		_, _ = h.WriteString(text)
		if err := d.hashes.Add(hashed{kind, h.Sum64(), t.Line}); err != nil {
			return err
		}
	}
	return d.texts.Add(t)
}

// join yields the pages whose texts have hashes that others have too, by code, hash, text and URL.
func (d *duplicates) join(ctx context.Context) iter.Seq2[member, error] {
	return func(yield func(member, error) bool) {
		err := d.compareHashes(ctx)
		if err == nil {
			err = d.findTexts(ctx)
		}
		if err != nil {
			yield(member{}, err)
			return
		}
		d.members.Sort(ctx, yield)
	}
}

// compareHashes finds the hashes that several pages have.
func (d *duplicates) compareHashes(ctx context.Context) error {
	defer d.hashes.Close()
	var last hashed
	n := 0 // texts with the hash of last
	for h, err := range d.hashes.Sorted(ctx) {
		if err != nil {
			return err
		}
		if n > 0 && (h.Kind != last.Kind || h.Hash != last.Hash) {
			n = 0
		}
		if n++; n == 2 {
			err = d.repeated.Add(last)
		}
		if n > 1 && err == nil {
			err = d.repeated.Add(h)
		}
		if err != nil {
			return err
		}
		last = h
	}
	return nil
}

// findTexts finds the texts of the hashes that several pages have.
func (d *duplicates) findTexts(ctx context.Context) error {
	defer d.texts.Close()
	defer d.repeated.Close()
	next, stop := iter.Pull2(d.texts.Sorted(ctx))
	defer stop()
	t := texts{Line: noLine}
	for m, err := range d.repeated.Sorted(ctx) {
		d.line = m.Line
		for more := true; more && err == nil && t.Line < m.Line; {
			t, err, more = next()
		}
		if err == nil {
			err = d.members.Add(member{duplicateOf(m.Kind), m.Hash, t.Texts[m.Kind], t.URL, m.Line})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxAlike is how many other pages an item of a duplicate names.
const maxAlike = 10

// joinGroups finds the texts that several pages have.
func (f *Finder) joinGroups(ctx context.Context) error {
	var g group
	for m, err := range f.duplicates.join(ctx) {
		if err != nil {
			return err
		}
		if g.n > 0 && (m.Code != g.first[0].Code || m.Hash != g.first[0].Hash || m.Text != g.first[0].Text) {
			g.end(f)
		}
		g.take(f, m)
	}
	g.end(f)
	return f.err
}

// group holds the first pages with one text. Pages come in the order of their URLs.
type group struct {
	n     int64
	first []member // maxAlike+1 at most, so that each of them has maxAlike others
}

func (g *group) take(f *Finder, m member) {
	if g.n++; len(g.first) <= maxAlike {
		g.first = append(g.first, m)
		return
	}
	g.report(f, &m)
}

// end reports the pages that are held, if there are several, and empties the group.
func (g *group) end(f *Finder) {
	if g.n > 1 {
		for i := range g.first {
			g.report(f, &g.first[i])
		}
		same := Same{Count: g.n, What: g.first[0].Text}
		for i := range g.first[:min(len(g.first), maxAlike)] {
			same.URLs = append(same.URLs, g.first[i].URL)
		}
		c := g.first[0].Code
		if f.same[c] == nil {
			f.same[c] = &alike{}
		}
		f.same[c].add(same)
	}
	g.n, g.first = 0, g.first[:0]
}

func (g *group) report(f *Finder, m *member) {
	related := make([]string, 0, maxAlike)
	for i := range g.first {
		if other := g.first[i].URL; other != m.URL && len(related) < maxAlike {
			related = append(related, other)
		}
	}
	f.add(m.Code, m.URL, m.Line, m.Text, related...)
}
