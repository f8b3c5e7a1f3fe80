package testweb

import (
	"errors"
	"fmt"
	"net/url"
)

// walk goes over the graph as a correct crawl does: breadth first from the start
// pages, through everything in scope.
type walk struct {
	w      *web
	c      Crawl
	scope  *scope
	starts []ref
	inside []int8 // by host: 1 in scope, -1 out of it, 0 not yet known
}

// step is a URL on its way through the walk.
type step struct {
	host, node int32
	hops       int16 // redirects that led here in a row
}

func newWalk(w *web, c Crawl) (*walk, error) {
	if c.MaxDepth > 0 && !c.NoSitemaps {
		return nil, errors.New("with a depth limit, what sitemaps add is not defined")
	}
	wk := &walk{w: w, c: c, inside: make([]int8, len(w.plans))}
	var err error
	if wk.scope, err = newScope(c.Scope); err != nil {
		return nil, err
	}
	for _, start := range c.Starts {
		r, ok := w.parse(start)
		if !ok {
			return nil, fmt.Errorf("start URL %s is not of this web", start)
		}
		wk.starts = append(wk.starts, r)
		wk.scope.add(w, r)
		// A start's redirect extends the scope to its target.
		for range c.MaxRedirects {
			to, ok := wk.target(r, w.verdict(r, c))
			if !ok {
				break
			}
			r = to
			wk.scope.add(w, r)
		}
	}
	return wk, nil
}

// parse finds the node that a canonical URL names.
func (w *web) parse(raw string) (ref, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme+"://" != w.base {
		return ref{}, false
	}
	host, ok := w.names.lookup([]byte(u.Host))
	if !ok {
		return ref{}, false
	}
	r := ref{host, w.find(host, []byte(u.RequestURI()))}
	return r, r.node >= 0 && w.url(r) == raw
}

// target returns where a node redirects to.
func (wk *walk) target(r ref, v verdict) (ref, bool) {
	if !v.redirects() {
		return ref{}, false
	}
	if m := wk.w.plans[r.host].moved; m != nil {
		return ref{*m, r.node}, true
	}
	return ref{r.host, wk.w.find(r.host, []byte(v.to))}, true
}

// run yields the expectations. It keeps two levels of the walk and a bit for
// each node.
func (wk *walk) run(yield func(Expectation) bool) {
	seen := make([][]uint64, len(wk.w.plans))
	var level, next []step
	visit := func(list *[]step, r ref, hops int16) {
		if r.node < 0 {
			return
		}
		if seen[r.host] == nil {
			seen[r.host] = make([]uint64, (wk.w.nodes(r.host)+63)/64)
		}
		word, bit := &seen[r.host][r.node/64], uint64(1)<<(r.node%64)
		if *word&bit != 0 || !wk.inScope(r) {
			return
		}
		if l := wk.w.leaf(r.host, r.node); l != nil && l.trap {
			return
		}
		*word |= bit
		*list = append(*list, step{int32(r.host), int32(r.node), hops})
	}

	for _, r := range wk.starts {
		visit(&level, r, 0)
	}
	if !wk.c.NoSitemaps {
		for _, r := range wk.starts {
			p := wk.w.plans[r.host]
			if p.moved != nil || wk.c.RobotsStrict && p.robots.unreachable() {
				continue
			}
			for node := range wk.w.leafBase() {
				visit(&level, ref{r.host, node}, 0)
			}
		}
	}
	for depth := 0; len(level) > 0; depth++ {
		for i := 0; i < len(level); i++ { // redirects add to the level being walked
			st := level[i]
			r := ref{int(st.host), int(st.node)}
			v := wk.w.verdict(r, wk.c)
			e := Expectation{
				URL: wk.w.url(r), Outcomes: v.outcomes, Status: v.status, Title: v.title, Depth: depth, Indexable: v.indexable,
			}
			to, redirects := wk.target(r, v)
			if redirects {
				e.Location = wk.w.url(to)
				if int(st.hops) < wk.c.MaxRedirects {
					visit(&level, to, st.hops+1)
				} else {
					e.Outcomes = []string{OutcomeRedirect, OutcomeRedirectLoop}
				}
			}
			if !yield(e) {
				return
			}
			if v.good() && (wk.c.MaxDepth == 0 || depth < wk.c.MaxDepth) {
				wk.eachLink(r, func(to ref) { visit(&next, to, 0) })
			}
		}
		level, next = next, level[:0]
	}
}

// inScope asks the scope, once for each host where all its URLs fare alike.
func (wk *walk) inScope(r ref) bool {
	if wk.scope.kind == "prefix" {
		return wk.scope.contains(wk.w, r)
	}
	in := &wk.inside[r.host]
	if *in == 0 {
		*in = -1
		if wk.scope.contains(wk.w, r) {
			*in = 1
		}
	}
	return *in > 0
}

// eachLink calls f for every link of a node that a crawl follows.
func (wk *walk) eachLink(r ref, f func(ref)) {
	if l := wk.w.leaf(r.host, r.node); l != nil {
		for _, link := range l.links {
			if !link.nofollow || wk.c.FollowNofollow {
				f(ref{r.host, wk.w.find(r.host, []byte(link.uri))})
			}
		}
		return
	}
	for it := wk.w.links(r); it.next(); {
		if it.leaf == nil || !it.leaf.nofollow || wk.c.FollowNofollow {
			f(it.to)
		}
	}
}
