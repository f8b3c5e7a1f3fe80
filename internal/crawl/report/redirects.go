package report

import (
	"strings"

	"github.com/mapwright/mapwright/internal/page"
)

// redirects gathers the redirects of a crawl, in the order of the export, and makes chains of them. Its memory is bounded: it looks at the
// first maxRedirects, and counts each one after them as a chain.
type redirects struct {
	items []redirect
	more  int64 // redirects after the first maxRedirects
	loops int64 // of those, the ones that never end
}

type redirect struct {
	url, to, foundOn string
	endless          bool // its outcome is redirect_loop, or that of one that it leads to
	entered          bool // it was found as a start, a link or in a sitemap, and not as the target of a redirect
}

const maxRedirects = 100_000

func (r *redirects) see(url, to, foundOn, source string, endless bool) {
	if len(r.items) == maxRedirects {
		r.more++
		if endless {
			r.loops++
		}
		return
	}
	// Copies, since the strings of a page may be parts of a larger text.
	r.items = append(r.items, redirect{strings.Clone(url), strings.Clone(to), strings.Clone(foundOn), endless, source != page.SourceName(page.SourceRedirect)})
}

// lists are the whole chains: each begins with a URL that no other redirect leads to, or, in a loop that nothing leads to, with the URL by
// which the crawl entered it. Hops holds only the first target.
func (r *redirects) lists() (chains, loops *List[Chain]) {
	chains, loops = &List[Chain]{}, &List[Chain]{}
	from, target := make(map[string]*redirect, len(r.items)), make(map[string]bool, len(r.items))
	for i := range r.items {
		item := &r.items[i]
		from[item.url] = item
		if item.to != item.url {
			target[item.to] = true
		}
	}
	listed := make(map[*redirect]bool, len(r.items)) // those that are in a chain of the lists
	add := func(first *redirect) {
		var way []*redirect
		item, endless := first, false
		for ; item != nil && !listed[item]; item = from[item.to] {
			listed[item] = true
			way = append(way, item)
			endless = endless || item.endless
		}
		endless = endless || item != nil && item.endless
		for _, item := range way {
			item.endless = endless
		}
		list := chains
		if endless {
			list = loops
		}
		list.add(Chain{first.url, []string{first.to}, first.foundOn})
	}
	for i := range r.items {
		if item := &r.items[i]; !target[item.url] {
			add(item)
		}
	}
	// What is left are loops that nothing leads to.
	for _, entered := range []bool{true, false} {
		for i := range r.items {
			if item := &r.items[i]; item.entered == entered && !listed[item] {
				add(item)
			}
		}
	}
	chains.Total, chains.Cut = chains.Total+r.more-r.loops, chains.Cut+r.more-r.loops
	loops.Total, loops.Cut = loops.Total+r.loops, loops.Cut+r.loops
	return chains.orNil(), loops.orNil()
}
