package problemsite

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mapwright/mapwright/parser"
)

// Expect are the URLs that have each problem, in order, as a crawl with or without recorded links must find them.
func (s *Site) Expect(links bool) (map[string][]string, error) {
	e := &expectation{site: s, links: links, crawled: s.reachable(), found: map[string][]string{}}
	for _, p := range e.crawled {
		e.single(p)
		e.several(p)
	}
	return e.found, e.near()
}

type expectation struct {
	site    *Site
	links   bool
	crawled []*Page
	found   map[string][]string
}

func (e *expectation) add(is bool, code string, p *Page) {
	if is {
		e.found[code] = append(e.found[code], p.URL)
	}
}

func (p *Page) isIndexable() bool {
	return p.isRead() && !p.NoIndex && (p.Canonical == "" || p.Canonical == p.URL)
}

func (p *Page) host() string {
	host, _, _ := strings.Cut(strings.TrimPrefix(p.URL, "https://"), "/")
	return host
}

func tidy(text string) string { return strings.Join(strings.Fields(text), " ") }

// isListed reports whether a sitemap that is read lists the page.
func (p *Page) isListed() bool { return p.Listed && p.host() != Soft }

// single finds what one page tells.
func (e *expectation) single(p *Page) {
	listed, read, indexable := p.isListed(), p.isRead(), p.isIndexable()
	e.add(p.Status >= 500, "server_error", p)
	e.add(e.isLoop(p), "redirect_loop", p)
	e.add(listed && !p.isBlocked() && p.Status != 0, "sitemap_not_ok", p)
	e.add(listed && (p.isBlocked() || read && !indexable), "sitemap_not_indexable", p)
	e.add(indexable && !p.Listed && p.host() == Main, "not_in_sitemap", p)
	title, description := utf8.RuneCountInString(tidy(p.Title)), utf8.RuneCountInString(tidy(p.Description))
	e.add(indexable && title == 0, "title_missing", p)
	e.add(indexable && title > 60, "title_long", p)
	e.add(indexable && description == 0, "description_missing", p)
	e.add(indexable && description > 160, "description_long", p)
	headings := 0
	for _, h := range p.H1 {
		if tidy(h) != "" {
			headings++
		}
	}
	e.add(read && headings == 0, "h1_missing", p)
	e.add(read && headings > 1, "h1_several", p)
	e.add(read && p.Insecure != "", "mixed_content", p)
	e.add(read && p.Wait > 3*time.Second, "slow", p)
	e.add(read && p.Size > 2<<20, "large", p)
	e.add(indexable && len(strings.Fields(p.Text)) < 60, "thin", p)
	e.add(read && p.host() == Soft && p.Text == e.site.missing("").Text, "soft_404", p)
}

// several finds what other pages are needed for.
func (e *expectation) several(p *Page) {
	indexable := p.isIndexable()
	var followed, linked, redirected, sameTitle, sameDescription, sameText bool
	for _, q := range e.crawled {
		if q == p {
			continue
		}
		redirected = redirected || q.Redirect == p.URL
		if q.isRead() {
			for _, to := range q.links() {
				linked = linked || to.To == p.URL
				followed = followed || to.To == p.URL && !to.NoFollow
			}
		}
		if q.isIndexable() {
			sameTitle = sameTitle || q.host() == p.host() && tidy(q.Title) == tidy(p.Title)
			sameDescription = sameDescription || q.host() == p.host() && tidy(q.Description) == tidy(p.Description)
			sameText = sameText || q.shown() == p.shown()
		}
	}
	broken := p.Refused || p.Status == 404 || p.Status == 410
	moved := (p.Status == 301 || p.Status == 308) && !e.isLoop(p)
	if e.links {
		e.add(moved && linked, "link_to_redirect", p)
	} else {
		linked = followed
	}
	e.add(broken && (linked || redirected), "broken_link", p)
	e.add(len(e.hops(p)) > 1 && !e.isLoop(p) && !redirected, "redirect_chain", p)
	e.add(indexable && p.URL != Start && !followed && !redirected, "orphan", p)
	e.add(indexable && tidy(p.Title) != "" && sameTitle, "title_duplicate", p)
	e.add(indexable && tidy(p.Description) != "" && sameDescription, "description_duplicate", p)
	e.add(indexable && len(strings.Fields(p.Text)) >= 20 && sameText, "duplicate_exact", p)
	if target := e.site.byURL[p.Canonical]; p.isRead() && target != nil && target != p {
		e.add(!target.isIndexable(), "canonical_bad", p)
	}
	e.add(p.isRead() && slices.ContainsFunc(p.Hreflang, func(url string) bool {
		other := e.site.byURL[url]
		return other != nil && other != p && other.isRead() && !slices.Contains(other.Hreflang, p.URL)
	}), "hreflang_no_return", p)
}

// links are all links of a page, those of its head too.
func (p *Page) links() []Link {
	list := slices.Clone(p.Links)
	if p.Canonical != "" {
		list = append(list, Link{To: p.Canonical})
	}
	for _, to := range p.Hreflang {
		list = append(list, Link{To: to})
	}
	return list
}

// shown is what a reader sees of a page.
func (p *Page) shown() string {
	texts := []string{}
	for _, l := range p.Links {
		texts = append(texts, l.Text)
	}
	return fmt.Sprint(tidy(p.Title), "|", tidy(p.Description), "|", p.H1, "|", p.Text, "|", texts)
}

// hops are where a redirect leads.
func (e *expectation) hops(p *Page) (hops []string) {
	for p != nil && p.Redirect != "" && len(hops) < 20 {
		hops = append(hops, p.Redirect)
		p = e.site.byURL[p.Redirect]
	}
	return hops
}

func (e *expectation) isLoop(p *Page) bool { return len(e.hops(p)) == 20 }

// near finds the pages whose texts are nearly equal, by the definition: the simhash that the parser computes.
func (e *expectation) near() error {
	reader, err := parser.New(parser.Options{SimHash: true})
	if err != nil {
		return err
	}
	sims := map[*Page]uint64{}
	for _, p := range e.crawled {
		if !p.isIndexable() || len(strings.Fields(p.Text)) < 100 {
			continue
		}
		var pg parser.Page
		u, err := parser.ParseURL(p.URL)
		if err == nil {
			err = reader.Parse(&pg, parser.Input{URL: u, Body: []byte(p.HTML())})
		}
		if err != nil {
			return err
		}
		sims[p] = pg.SimHash
	}
	for _, p := range e.crawled {
		sim, long := sims[p]
		near := false
		for q, other := range sims {
			near = near || parser.Distance(sim, other) <= 3 && q.shown() != p.shown()
		}
		e.add(long && near, "duplicate_near", p)
	}
	return nil
}
