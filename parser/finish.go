package parser

import "slices"

// finish makes the Page from what was found. The arena becomes one string that
// all the others are parts of.
func (w *walker) finish(pg *Page) {
	f := &w.facts
	robotsMeta := w.keep(f.robots.text)
	text := string(w.arena)

	pg.Title = f.title.in(text)
	pg.Description = f.description.in(text)
	pg.H1 = f.h1.in(text)
	pg.Language = f.language.in(text)
	pg.RobotsMeta = robotsMeta.in(text)
	pg.NoIndex, pg.NoFollow = f.robots.noIndex, f.robots.noFollow
	pg.UnavailableAfter = f.robots.expires
	pg.WordCount = w.words.n
	pg.TextHash, pg.WordHash, pg.VisibleHash = w.texts.sum(), w.texts.withoutNumbers(), w.texts.visible()
	pg.SimHash = 0
	if w.texts.similar != nil {
		pg.SimHash = w.texts.similar.sum()
	}
	pg.Modified = f.modified
	pg.Base = w.base
	pg.LinkCount, pg.Truncated = w.linkCount, w.truncated

	if cap(pg.Links) > keepLinks && len(w.links) <= keepLinks {
		pg.Links = nil
	}
	n := len(w.links)
	if n < len(pg.Links) {
		clear(pg.Links[n:]) // strings of the page before
	}
	pg.Links = slices.Grow(pg.Links[:0], n)[:n]
	for i := range w.links {
		w.links[i].link(&pg.Links[i], text)
	}
	pg.Canonical = ""
	if f.canonical >= 0 {
		pg.Canonical = pg.Links[f.canonical].URL.String()
	}
	pg.Hreflang = pg.Hreflang[:0]
	for _, h := range f.hreflang {
		if u := pg.Links[h.link].URL; !u.IsZero() {
			pg.Hreflang = append(pg.Hreflang, Hreflang{Lang: h.lang.in(text), URL: u})
		}
	}
	pg.OpenGraph = pg.OpenGraph[:0]
	for _, p := range f.openGraph {
		pg.OpenGraph = append(pg.OpenGraph, Property{p.name.in(text), p.content.in(text)})
	}
	pg.JSONLDTypes = pg.JSONLDTypes[:0]
	for _, t := range f.types {
		pg.JSONLDTypes = append(pg.JSONLDTypes, t.in(text))
	}
	// The caller's buffers are its own again.
	w.parser, w.in = nil, Input{}
	w.scanner, w.json.b, w.texts.href = scanner{}, nil, nil
}
