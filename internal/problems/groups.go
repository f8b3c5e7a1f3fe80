package problems

import (
	"context"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/extsort"
)

// member is a page that has something which other pages may have too.
type member struct {
	Code Code
	Hash uint64 // of the host, if it matters, and of Text
	Text string
	URL  string
	Line int64
}

func appendMember(dst []byte, m *member) []byte {
	dst = extsort.AppendText(extsort.AppendNumbers(append(dst, byte(m.Code)), m.Hash), m.Text)
	return extsort.AppendNumbers(extsort.AppendText(dst, m.URL), uint64(m.Line))
}

func readMember(r *extsort.Reader) member {
	return member{Code(r.Byte()), r.Uint64(), r.Text(), r.Text(), int64(r.Uint64())}
}

// group notes a text that only one page of the host should have. An empty host means any.
func (f *Finder) group(c Code, host, text string, v *view) {
	if f.err != nil || !f.looks(c) {
		return
	}
	h := xxhash.New()
	_, _ = h.WriteString(host)
	_, _ = h.WriteString("\n")
	_, _ = h.WriteString(text)
	f.err = f.groups.Add(member{Code: c, Hash: h.Sum64(), Text: text, URL: v.URL, Line: v.number})
}

// maxAlike is how many other pages an item of a duplicate names.
const maxAlike = 10

// joinGroups finds the texts that several pages have.
func (f *Finder) joinGroups(ctx context.Context) error {
	var g group
	for m, err := range f.groups.Sorted(ctx) {
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

// group are the pages with one text, of which only the first are held. They come in the order of their URLs.
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
