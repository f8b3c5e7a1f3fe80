package testweb

import (
	"bytes"
	"strconv"
)

// A node is a URL of a host, by number: the pages of the tree first ("/" is 0), then
// the orphans, then the leaves of the host's plan. Negative numbers stand for URLs
// that are not one of a finite set.
const (
	nodeUnknown = -1 - iota // nothing there
	nodeTrap                // inside a trap
	nodeAsset               // what pages embed and no crawl follows
)

// dirs is the number of directories the pages of a tree are spread over, so that
// relative links have something to climb.
const dirs = 32

// ref is a node of some host.
type ref struct {
	host, node int
}

// web is the graph of all hosts: what links where, under which name. It is
// immutable.
type web struct {
	cfg   Config
	names naming
	text  filler
	plans []*plan // by host
	base  string  // scheme and "://"
	port  string  // with its colon, or empty
	cross uint64  // of 2^32: share of extra links that leave the host
	fan   int     // children of a page in the tree

	changes pageChanges
}

func newWeb(cfg Config, port string) (*web, error) {
	names, err := newNaming(cfg.HostName, cfg.Hosts)
	if err != nil {
		return nil, err
	}
	w := &web{
		cfg:   cfg,
		names: names,
		text:  newFiller(cfg.Seed, cfg.Numbers),
		base:  "http://",
		port:  port,
		cross: uint64(cfg.CrossHost * (1 << 32)),
		fan:   max(1, min(10, cfg.Links/3)),

		changes: newPageChanges(cfg.Changes),
	}
	if cfg.TLS {
		w.base = "https://"
	}
	if cfg.Hosts == 1 {
		w.cross = 0
	}
	if w.plans, err = newPlans(w); err != nil {
		return nil, err
	}
	return w, nil
}

// leafBase is the number of the first leaf.
func (w *web) leafBase() int { return w.cfg.Pages + w.cfg.orphans() }

// nodes is how many nodes a host has.
func (w *web) nodes(host int) int {
	n := w.movedBase(host)
	if w.changes.moves {
		n += w.leafBase()
	}
	return n
}

// leaf returns the leaf that a node is, or nil.
func (w *web) leaf(host, node int) *leaf {
	leaves := w.plans[host].leaves
	if i := node - w.leafBase(); i >= 0 && i < len(leaves) {
		return &leaves[i]
	}
	return nil
}

func (w *web) appendOrigin(dst []byte, host int) []byte {
	dst = append(dst, w.base...)
	dst = w.names.append(dst, host)
	return append(dst, w.port...)
}

// originLen is about the length of a host's origin, and never less.
func (w *web) originLen() int {
	return len(w.base) + len(w.names.prefix) + len(w.names.suffix) + len(w.port) + 7
}

// appendURI appends a node's path and query in canonical form.
func (w *web) appendURI(dst []byte, host, node int) []byte {
	switch {
	case node == 0:
		return append(dst, '/')
	case node < w.cfg.Pages:
		dst = append(dst, "/d"...)
		dst = strconv.AppendInt(dst, int64(node%dirs), 10)
		dst = append(dst, "/p"...)
	case node < w.leafBase():
		node -= w.cfg.Pages
		dst = append(dst, "/o/p"...)
	default:
		if l := w.leaf(host, node); l != nil {
			return append(dst, l.uri...)
		}
		node = w.original(host, node)
		dst = append(dst, "/m/p"...)
	}
	dst = strconv.AppendInt(dst, int64(node), 10)
	return append(dst, ".html"...)
}

// url returns a node's canonical URL.
func (w *web) url(r ref) string {
	return string(w.appendURI(w.appendOrigin(nil, r.host), r.host, r.node))
}

// find is the inverse of appendURI.
func (w *web) find(host int, uri []byte) int {
	if len(uri) == 1 && uri[0] == '/' {
		return 0
	}
	if name, ok := bytes.CutSuffix(uri, []byte(".html")); ok {
		if rest, ok := bytes.CutPrefix(name, []byte("/d")); ok {
			dir, num, _ := bytes.Cut(rest, []byte("/p"))
			d, ok1 := parseIndex(dir)
			n, ok2 := parseIndex(num)
			if ok1 && ok2 && n > 0 && n < w.cfg.Pages && d == n%dirs {
				return n
			}
		} else if num, ok := bytes.CutPrefix(name, []byte("/o/p")); ok {
			if n, ok := parseIndex(num); ok && n < w.cfg.orphans() {
				return w.cfg.Pages + n
			}
		} else if num, ok := bytes.CutPrefix(name, []byte("/m/p")); ok && w.changes.moves {
			if n, ok := parseIndex(num); ok && n < w.leafBase() && w.isMoving(ref{host, n}) {
				return w.movedBase(host) + n
			}
		}
	}
	return w.plans[host].find(uri, w.leafBase())
}

// linkIter yields the links of one page in the order they stand on it. Rendering
// and the expectation both go through it.
type linkIter struct {
	to       ref
	shape    uint64 // random bits for how the link is written
	leaf     *leaf  // not nil if to is a leaf
	w        *web
	from     ref
	rand     rng
	child    int // next child in the tree
	childEnd int
	gen      int // generation of the web
	left     int // links to pages still to come
	leafNext int // index into the plan's linked leaves
}

// links returns the links of a page of the tree or an orphan in a generation.
func (w *web) links(from ref, gen int) linkIter {
	it := linkIter{w: w, from: from, left: w.cfg.Links, gen: gen}
	original := w.original(from.host, from.node)
	it.rand = rng(nodeHash(w.cfg.Seed, from.host, original) ^ 0x11bc)
	it.child, it.childEnd = w.children(original)
	it.leafNext = original
	if original >= w.cfg.Pages {
		it.leafNext = len(w.plans[from.host].linked)
	}
	return it
}

func (it *linkIter) next() bool {
	w := it.w
	for it.left > 0 {
		it.left--
		it.shape = it.rand.next()
		it.to = ref{it.from.host, 0}
		switch {
		case it.child < it.childEnd:
			it.to.node = it.child
			it.child++
			if w.changes.relinks && w.state(it.to, it.gen).hidden {
				continue
			}
			return true
		case w.cross > 0 && it.shape>>32 < w.cross:
			it.to.host = (it.from.host + 1 + it.rand.intn(w.cfg.Hosts-1)) % w.cfg.Hosts
			if it.shape&1 == 0 {
				it.to.node = it.rand.intn(w.cfg.Pages)
			}
		default:
			it.to.node = it.rand.intn(w.cfg.Pages)
		}
		if w.changes.relinks && w.isRelinked(it.to) {
			it.to.node = 0
		}
		return true
	}
	p := w.plans[it.from.host]
	if it.leafNext >= len(p.linked) {
		return false
	}
	i := p.linked[it.leafNext]
	it.leafNext += w.cfg.Pages
	it.to = ref{it.from.host, w.leafBase() + i}
	it.leaf = &p.leaves[i]
	return true
}
