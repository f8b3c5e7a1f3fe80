package problemsite

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plan makes the pages: ordinary ones, and a few with each problem, or with what looks like it.
func (s *Site) plan() {
	home := s.add(Main, "/", func(p *Page) { p.Title = "Home" })
	var linked []*Page // get a link from a hub
	put := func(path string, change func(*Page)) *Page {
		p := s.add(Main, path, change)
		linked = append(linked, p)
		return p
	}
	some := func() int { return 1 + s.rng.IntN(4) }
	for i := range 30 {
		put(fmt.Sprintf("/ordinary/%d", i), func(p *Page) { p.Listed = i%5 > 0 })
	}
	ordinary := linked[:30:30]
	any := func() string { return ordinary[s.rng.IntN(len(ordinary))].URL }

	s.planAnswers(put, some, any)
	s.planSitemaps(put, some, any)
	s.planRelations(put, some, any)
	s.planTexts(put, some)
	s.planHosts(some, &linked)

	hubs := []*Page{}
	for i := 0; i < len(linked); i += 20 {
		hub := s.add(Main, fmt.Sprintf("/hub/%d", i), nil)
		for _, p := range linked[i:min(i+20, len(linked))] {
			hub.Links = append(hub.Links, Link{To: p.URL, Text: "to " + s.words(1)[0]})
		}
		home.Links = append(home.Links, Link{To: hub.URL, Text: fmt.Sprint("hub ", s.words(1)[0])})
		hubs = append(hubs, hub)
	}
	// Further links, some of them twice on a page.
	for range 60 {
		from, to := hubs[s.rng.IntN(len(hubs))], linked[s.rng.IntN(len(linked))]
		from.Links = append(from.Links, Link{To: to.URL, Text: "again"})
	}
}

type putter func(path string, change func(*Page)) *Page

// planAnswers makes URLs that fail and redirects.
func (s *Site) planAnswers(put putter, some func() int, any func() string) {
	unlisted := func(p *Page) { p.Listed = false }
	status := func(n int) func(*Page) { return func(p *Page) { p.Status, p.Listed = n, false } }
	to := func(n int, url string) func(*Page) {
		return func(p *Page) { p.Status, p.Redirect, p.Listed = n, url, false }
	}
	for i := range some() {
		put(fmt.Sprintf("/gone/%d", i), status(404+6*(i%2)))
		put(fmt.Sprintf("/refused/%d", i), status([]int{401, 403, 451}[i%3]))
		put(fmt.Sprintf("/moved/%d", i), to(301+7*(i%2), any()))
		put(fmt.Sprintf("/found/%d", i), to(302, any()))
		put(fmt.Sprintf("/loop/%d/a", i), to(302, fmt.Sprintf("https://%s/loop/%d/b", Main, i)))
		s.add(Main, fmt.Sprintf("/loop/%d/b", i), to(301, fmt.Sprintf("https://%s/loop/%d/a", Main, i)))
		put(fmt.Sprintf("/chain/%d/a", i), to(302, fmt.Sprintf("https://%s/chain/%d/b", Main, i)))
		s.add(Main, fmt.Sprintf("/chain/%d/b", i), to(302, fmt.Sprintf("https://%s/chain/%d/c", Main, i)))
		s.add(Main, fmt.Sprintf("/chain/%d/c", i), to(301, any()))
		put(fmt.Sprintf("/chain/%d/second", i), to(301, fmt.Sprintf("https://%s/chain/%d/b", Main, i)))
		put(fmt.Sprintf("/lost/%d", i), to(302, fmt.Sprintf("https://%s/lost/%d/target", Main, i)))
		s.add(Main, fmt.Sprintf("/lost/%d/target", i), status(404)) // only a redirect leads to it
	}
	put("/self", to(301, "https://"+Main+"/self"))
	put("/error", status(500))
	put("/large", func(p *Page) { p.Size = 3 << 20 })
	refused := &Page{URL: Refused, Refused: true}
	s.pages = append(s.pages, refused)
	s.byURL[refused.URL] = refused
	put("/to/refused", func(p *Page) { unlisted(p); p.Links = append(p.Links, Link{To: Refused, Text: "elsewhere"}) })
}

// planSitemaps makes URLs that a sitemap should not list, and pages that nothing else names.
func (s *Site) planSitemaps(put putter, some func() int, any func() string) {
	for i := range some() {
		put(fmt.Sprintf("/listed/noindex/%d", i), func(p *Page) { p.NoIndex = true })
		put(fmt.Sprintf("/private/%d", i), nil)
		put(fmt.Sprintf("/listed/copy/%d", i), func(p *Page) { p.Canonical = any() })
		s.add(Main, fmt.Sprintf("/listed/gone/%d", i), func(p *Page) { p.Status = 404 })
		s.add(Main, fmt.Sprintf("/listed/moved/%d", i), func(p *Page) { p.Status, p.Redirect = 301, any() })
		s.add(Main, fmt.Sprintf("/orphan/%d", i), nil)
		self := s.add(Main, fmt.Sprintf("/orphan/self/%d", i), nil)
		self.Links = append(self.Links, Link{To: self.URL, Text: "here"})
		nofollow := s.add(Main, fmt.Sprintf("/orphan/nofollow/%d", i), nil)
		gone := s.add(Main, fmt.Sprintf("/listed/gone/nofollow/%d", i), func(p *Page) { p.Status = 404 })
		target := s.add(Main, fmt.Sprintf("/redirected/%d", i), nil)
		put(fmt.Sprintf("/to/some/%d", i), func(p *Page) {
			p.Links = append(p.Links, Link{To: nofollow.URL, Text: "x", NoFollow: true},
				Link{To: gone.URL, Text: "y", NoFollow: true})
		})
		put(fmt.Sprintf("/redirect/%d", i), func(p *Page) { p.Status, p.Redirect, p.Listed = 302, target.URL, false })
	}
}

// planRelations makes canonical addresses and language versions.
func (s *Site) planRelations(put putter, some func() int, any func() string) {
	for i := range some() {
		noindex := put(fmt.Sprintf("/noindex/%d", i), func(p *Page) { p.NoIndex, p.Listed = true, false })
		copied := put(fmt.Sprintf("/copy/%d", i), func(p *Page) { p.Canonical, p.Listed = any(), false })
		for k, target := range []string{noindex.URL, copied.URL, fmt.Sprintf("https://%s/gone/0", Main),
			fmt.Sprintf("https://%s/moved/0", Main), "https://elsewhere.test/"} {
			put(fmt.Sprintf("/canonical/%d/%d", i, k), func(p *Page) { p.Canonical, p.Listed = target, false })
		}
		put(fmt.Sprintf("/canonical/%d/self", i), func(p *Page) { p.Canonical = p.URL })
		group := []*Page{}
		for k := range 3 {
			group = append(group, put(fmt.Sprintf("/lang/%d/%d", i, k), nil))
		}
		lonely := put(fmt.Sprintf("/lang/%d/lonely", i), nil)
		for _, p := range group {
			for _, other := range group {
				p.Hreflang = append(p.Hreflang, other.URL)
			}
		}
		group[0].Hreflang = append(group[0].Hreflang, lonely.URL, "https://elsewhere.test/de",
			fmt.Sprintf("https://%s/gone/0", Main))
		if i%2 == 0 {
			group[1].Hreflang = slices.Delete(group[1].Hreflang, 2, 3) // names the third no more
		}
	}
}

// planTexts makes titles, descriptions, headings and texts.
func (s *Site) planTexts(put putter, some func() int) {
	fill := func(n int) string { return strings.Repeat("é", n-5) + s.text(40)[:5] }
	for i := range some() {
		put(fmt.Sprintf("/title/none/%d", i), func(p *Page) { p.Title = strings.Repeat(" ", i) })
		put(fmt.Sprintf("/title/same/%d", i), func(p *Page) { p.Title = "The  same title" })
		put(fmt.Sprintf("/title/same/noindex/%d", i), func(p *Page) {
			p.Title, p.NoIndex,
				p.Listed = "A title of hidden pages", true, false
		})
		put(fmt.Sprintf("/title/long/%d", i), func(p *Page) { p.Title = fill(61 + i) })
		put(fmt.Sprintf("/title/fits/%d", i), func(p *Page) { p.Title = fill(60) })
		put(fmt.Sprintf("/description/none/%d", i), func(p *Page) { p.Description = "" })
		put(fmt.Sprintf("/description/same/%d", i), func(p *Page) { p.Description = "The same description" })
		put(fmt.Sprintf("/description/long/%d", i), func(p *Page) { p.Description = fill(161 + i) })
		put(fmt.Sprintf("/description/fits/%d", i), func(p *Page) { p.Description = fill(160) })
		put(fmt.Sprintf("/h1/none/%d", i), func(p *Page) { p.H1 = [][]string{nil, {" "}}[i%2] })
		put(fmt.Sprintf("/h1/several/%d", i), func(p *Page) { p.H1 = append(p.H1, "", "second", "third") })
		put(fmt.Sprintf("/thin/%d", i), func(p *Page) { p.Text = s.text(10 + i) })
		put(fmt.Sprintf("/mixed/%d", i), func(p *Page) {
			p.Insecure = []string{
				`<script src="http://cdn.example.net/a.js"></script>`, `<img src="HTTP://cdn.example.net/a.png">`,
				`<link rel=stylesheet href="http://cdn.example.net/a.css">`,
				`<iframe src="http://cdn.example.net/a"></iframe>`,
			}[i]
		})
		put(fmt.Sprintf("/secure/%d", i), func(p *Page) {
			p.Insecure, p.Links = "", append(p.Links, Link{To: "http://cdn.example.net/", Text: "plain"})
		})
	}
	put("/title/same/again", func(p *Page) { p.Title = "The same title" })
	put("/description/same/again", func(p *Page) { p.Description = " The same   description" })
	for i := range 1 + some() {
		long, short := s.words(200), s.text(8)
		for k := range 1 + some() {
			put(fmt.Sprintf("/duplicate/%d/%d", i, k), func(p *Page) {
				p.Title, p.Description, p.H1, p.Text = fmt.Sprint("Copy ", long[0]), "Of a text", []string{"Copy"},
					strings.Join(long, " ")
			})
			put(fmt.Sprintf("/duplicate/short/%d/%d", i, k), func(p *Page) {
				p.Title, p.Description, p.H1, p.Text = "Short", "", []string{"Short"}, short
			})
		}
		near := s.words(400)
		for k := range 1 + some() {
			near[100+k] = s.words(1)[0]
			put(fmt.Sprintf("/near/%d/%d", i, k), func(p *Page) {
				p.Title, p.Description, p.H1, p.Text = "Nearly "+near[0], "Almost "+near[1], []string{near[2]},
					strings.Join(near, " ")
			})
		}
	}
}

// planHosts makes pages of the other hosts, and one that takes long.
func (s *Site) planHosts(some func() int, linked *[]*Page) {
	for i := range 1 + some() {
		for _, host := range []string{Soft, Part} {
			*linked = append(*linked, s.add(host, fmt.Sprintf("/page/%d", i),
				func(p *Page) { p.Listed = i%2 == 0 && host == Part }))
		}
		lost := s.missing(fmt.Sprintf("https://%s/lost/%d", Soft, i))
		s.pages = append(s.pages, lost)
		s.byURL[lost.URL] = lost
		*linked = append(*linked, lost)
	}
	*linked = append(*linked, s.add(Main, "/slow", func(p *Page) { p.Wait = 3200 * time.Millisecond }))
	// Titles are compared within a host only.
	*linked = append(*linked, s.add(Soft, "/same", func(p *Page) { p.Title, p.Listed = "The same title", false }))
}
