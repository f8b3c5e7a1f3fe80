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
	gen    *generation
	scope  *scope
	starts []ref
	inside []int8 // by host: 1 in scope, -1 out of it, 0 not yet known

	again *revisit // nil in a first crawl
}

// step is a URL on its way through the walk.
type step struct {
	host, node int32
	hops       int16 // redirects that led here in a row
}

func (st step) ref() ref { return ref{int(st.host), int(st.node)} }

func newWalk(w *web, c Crawl, gen *generation) (*walk, error) {
	if c.MaxDepth > 0 && !c.NoSitemaps {
		return nil, errors.New("with a depth limit, what sitemaps add is not defined")
	}
	wk := &walk{w: w, c: c, gen: gen, inside: make([]int8, len(w.plans))}
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
			to, ok := w.target(r, w.verdict(r, c, gen.n))
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

// target returns where a node with a verdict redirects to.
func (w *web) target(r ref, v verdict) (ref, bool) {
	if !v.redirects() {
		return ref{}, false
	}
	if m := w.plans[r.host].moved; m != nil {
		return ref{*m, r.node}, true
	}
	return ref{r.host, w.find(r.host, []byte(v.to))}, true
}

// expectations yields what a first crawl reports.
func (wk *walk) expectations(yield func(Expectation) bool) {
	wk.run(func(st step, depth int, v verdict) bool {
		e := wk.w.expectation(st, wk.c, v)
		e.Depth = depth
		return yield(e)
	})
}

// expectation is what a crawl reports of a node with a verdict, but for its depth.
func (w *web) expectation(st step, c Crawl, v verdict) Expectation {
	e := Expectation{URL: w.url(st.ref()), Outcomes: v.outcomes, Status: v.status, Title: v.title,
		Indexable: v.indexable}
	if to, ok := w.target(st.ref(), v); ok {
		e.Location = w.url(to)
		if int(st.hops) >= c.MaxRedirects {
			e.Outcomes = []string{OutcomeRedirect, OutcomeRedirectLoop}
		}
	}
	return e
}

// run calls visit for each node, until it returns false. It keeps two levels of the walk and a bit for each node.
func (wk *walk) run(visit func(st step, depth int, v verdict) bool) {
	seen := newNodeSet(wk.w)
	var level, next []step
	add := func(list *[]step, r ref, hops int16) {
		if r.node < 0 {
			return
		}
		if wk.again != nil {
			wk.again.named.add(r)
		}
		if l := wk.w.leaf(r.host, r.node); l != nil && l.trap || !wk.inScope(r) || !seen.add(r) {
			return
		}
		*list = append(*list, step{int32(r.host), int32(r.node), hops})
	}

	for _, r := range wk.starts {
		add(&level, r, 0)
	}
	if wk.again != nil {
		wk.again.each(func(st step) {
			if seen.add(st.ref()) {
				level = append(level, st)
			}
		})
	}
	if !wk.c.NoSitemaps {
		for _, r := range wk.starts {
			wk.eachListed(r.host, func(r ref) { add(&level, r, 0) })
		}
	}
	for depth := 0; len(level) > 0; depth++ {
		for i := 0; i < len(level); i++ { // redirects add to the level being walked
			st := level[i]
			r := st.ref()
			v, gen := wk.verdict(r)
			if to, ok := wk.w.target(r, v); ok && int(st.hops) < wk.c.MaxRedirects {
				add(&level, to, st.hops+1)
			}
			if !visit(st, depth, v) {
				return
			}
			if v.good() && (wk.c.MaxDepth == 0 || depth < wk.c.MaxDepth) {
				wk.eachLink(r, gen, func(to ref) {
					if to != r {
						add(&next, to, 0)
					}
				})
			}
		}
		level, next = next, level[:0]
	}
}

// verdict is what the crawl records of a node, and the generation in which it read that.
func (wk *walk) verdict(r ref) (verdict, int) {
	if wk.again != nil {
		rec := wk.again.record(r)
		return rec.verdict, rec.gen.n
	}
	return wk.w.verdict(r, wk.c, wk.gen.n), wk.gen.n
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

// eachListed calls f for every URL that the sitemaps of a host list.
func (wk *walk) eachListed(host int, f func(ref)) {
	p, gen := wk.w.plans[host], wk.gen
	if wk.again != nil {
		gen = wk.again.lastRead(host)
	}
	if p.moved != nil || p.down(gen.n) != nil || wk.c.RobotsStrict && p.robots.unreachable() {
		return
	}
	for node := range wk.w.leafBase() {
		if now, _, ok := wk.w.listed(ref{host, node}, gen); ok {
			f(ref{host, now})
		}
	}
}

// eachLink calls f for every link of a node in a generation that a crawl follows.
func (wk *walk) eachLink(r ref, gen int, f func(ref)) {
	if l := wk.w.leaf(r.host, r.node); l != nil {
		for _, link := range l.links {
			if !link.nofollow || wk.c.FollowNofollow {
				f(ref{r.host, wk.w.find(r.host, []byte(link.uri))})
			}
		}
		return
	}
	if st := wk.w.state(r, gen); st.elsewhere {
		f(ref{r.host, 0}) // its canonical URL is a link as well
	}
	for it := wk.w.links(r, gen); it.next(); {
		if it.leaf == nil || !it.leaf.nofollow || wk.c.FollowNofollow {
			f(it.to)
		}
	}
}

// nodeSet is a set of nodes, by host. It takes a bit for each node of a host that has any.
type nodeSet struct {
	w     *web
	words [][]uint64
}

func newNodeSet(w *web) nodeSet { return nodeSet{w, make([][]uint64, len(w.plans))} }

// add adds a node and reports whether it was not there.
func (s nodeSet) add(r ref) bool {
	if s.words[r.host] == nil {
		s.words[r.host] = make([]uint64, (s.w.nodes(r.host)+63)/64)
	}
	word, bit := &s.words[r.host][r.node/64], uint64(1)<<(r.node%64)
	added := *word&bit == 0
	*word |= bit
	return added
}

func (s nodeSet) has(r ref) bool {
	return s.words[r.host] != nil && s.words[r.host][r.node/64]>>(r.node%64)&1 != 0
}
