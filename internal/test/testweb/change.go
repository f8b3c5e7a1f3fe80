package testweb

import (
	"fmt"
	"math"
	"net/http"
)

// Changes makes pages change from one generation of the web to the next (see Server.SetGeneration). Each page but the
// root of a host is of one kind, decided by the seed; the fields named below are the shares, 0 to 1, of the kinds. What
// remains never changes, except that a page's text changes when a link to a child in the tree appears or vanishes.
// Where the text changes, it has hardly a word in common with that before. In generation 0 no change has happened.
// Changes outside of the text make a page longer or shorter than Config.PageSize.
type Changes struct {
	// Always is the share of pages whose text is another in every generation.
	Always float64 `yaml:"always"`
	// Sometimes is the share of pages whose text is another in some generations; Rate is the share of them that change
	// in one generation. A Rate of zero means 0.5.
	Sometimes float64 `yaml:"sometimes"`
	Rate      float64 `yaml:"rate"`
	// Vanish is the share of pages that answer 404 or 410 for one or two generations, or, one in four, for ever.
	Vanish float64 `yaml:"vanish"`
	// Redirect is the share of pages that redirect to their parent in the tree.
	Redirect float64 `yaml:"redirect"`
	// Move is the share of pages that redirect to a new URL, /m/p7.html, with the same text.
	Move float64 `yaml:"move"`
	// Tokens is the share of pages where tokens in the markup are others in every generation, and nothing that a reader
	// sees.
	Tokens float64 `yaml:"tokens"`
	// Counter is the share of pages whose text differs by one number in every generation.
	Counter float64 `yaml:"counter"`
	// Title is the share of pages that get another title. The title is part of the text that a reader sees.
	Title float64 `yaml:"title"`
	// Canonical is the share of pages whose canonical URL becomes the root of the host.
	Canonical float64 `yaml:"canonical"`
	// NoIndex is the share of pages that get a robots meta element with noindex.
	NoIndex float64 `yaml:"noindex"`
	// NoIndexHeader is the share of pages that get an X-Robots-Tag with noindex. Their validators stay, so a 304 has
	// the new header.
	NoIndexHeader float64 `yaml:"noindex_header"`
	// Disallow is the share of pages that robots.txt disallows, each with a rule of its own.
	Disallow float64 `yaml:"disallow"`
	// Appear is the share of pages that are neither there nor linked nor listed at first.
	Appear float64 `yaml:"appear"`
	// Unlink is the share of pages that stay, but are neither linked nor listed any more. Like those that appear, only
	// their parent in the tree and the sitemap name them before.
	Unlink float64 `yaml:"unlink"`

	// Span says when a change that happens once happens: in one of the generations 1 to Span, decided by the seed. Zero
	// means 3.
	Span int `yaml:"span"`
}

// ParseChanges reads Changes from a flag: names and values in the form "sometimes=0.5 rate=0.01 vanish=0.1".
func ParseChanges(s string) (*Changes, error) {
	c := new(Changes)
	n, err := parseFields(s)
	if err == nil {
		err = decodeStrict(n, c)
	}
	if err != nil {
		return nil, fmt.Errorf("changes %q: %w", s, err)
	}
	return c, nil
}

// pageKind is how a page changes.
type pageKind uint8

const (
	pageSteady pageKind = iota
	pageAlways
	pageSometimes
	pageVanish
	pageRedirect
	pageMove
	pageTokens
	pageCounter
	pageTitle
	pageCanonical
	pageNoIndex
	pageNoIndexHeader
	pageDisallow
	pageAppear
	pageUnlink
	numPageKinds
)

// kindShare is the name of a kind, as in a config, and its share of the pages.
type kindShare struct {
	name  string
	share float64
}

// shares lists the kinds in the order of their numbers.
func (c Changes) shares() [numPageKinds]kindShare {
	return [...]kindShare{
		pageSteady: {"steady", 0}, // what remains
		pageAlways: {"always", c.Always}, pageSometimes: {"sometimes", c.Sometimes}, pageVanish: {"vanish", c.Vanish},
		pageRedirect: {"redirect", c.Redirect}, pageMove: {"move", c.Move}, pageTokens: {"tokens", c.Tokens},
		pageCounter: {"counter", c.Counter}, pageTitle: {"title", c.Title}, pageCanonical: {"canonical", c.Canonical},
		pageNoIndex: {"noindex", c.NoIndex}, pageNoIndexHeader: {"noindex_header", c.NoIndexHeader},
		pageDisallow: {"disallow", c.Disallow}, pageAppear: {"appear", c.Appear}, pageUnlink: {"unlink", c.Unlink},
	}
}

func (k pageKind) String() string { return Changes{}.shares()[k].name }

// maxDisallowed keeps robots.txt below what crawlers read of it.
const maxDisallowed = 5000

func (c Changes) validate(pages int) []error {
	var errs []error
	sum := 0.0
	for _, k := range c.shares() {
		if !(k.share >= 0 && k.share <= 1) {
			errs = append(errs, fmt.Errorf("changes: %s %v: want 0 to 1", k.name, k.share))
		}
		sum += k.share
	}
	if !(c.Rate >= 0 && c.Rate <= 1) {
		errs = append(errs, fmt.Errorf("changes: rate %v: want 0 to 1", c.Rate))
	}
	const rounding = 1e-9
	if sum > 1+rounding {
		errs = append(errs, fmt.Errorf("changes: the shares sum up to %v: want at most 1", sum))
	}
	if c.Span < 0 || c.Span > maxGeneration {
		errs = append(errs, fmt.Errorf("changes: span %d: want 0 to %d", c.Span, maxGeneration))
	}
	if c.Disallow*float64(pages) > maxDisallowed {
		errs = append(errs, fmt.Errorf("changes: disallow %v of %d pages: want at most %d pages", c.Disallow, pages,
			maxDisallowed))
	}
	return errs
}

// pageChanges is Changes as the graph uses it. The zero value has no changes.
type pageChanges struct {
	on      bool
	bounds  [numPageKinds]uint64 // cumulative shares, of 2^32, in the order of the kinds
	rate    uint64               // of 2^32
	span    int
	relinks bool // there are pages that appear or lose their links
	moves   bool // there are pages that move

	disallows bool // there are pages that are disallowed
}

func newPageChanges(c *Changes) pageChanges {
	if c == nil {
		return pageChanges{}
	}
	p := pageChanges{on: true, span: max(c.Span, 1), rate: 1 << 31, relinks: c.Appear > 0 || c.Unlink > 0,
		moves: c.Move > 0, disallows: c.Disallow > 0}
	if c.Span == 0 {
		p.span = 3
	}
	if c.Rate > 0 {
		p.rate = uint64(c.Rate * (1 << 32))
	}
	sum := 0.0
	for k, s := range c.shares() {
		sum += s.share
		p.bounds[k] = uint64(math.Round(min(sum, 1) * (1 << 32)))
	}
	return p
}

// kind says how a page changes; begins is the generation of a change that happens once.
func (p *pageChanges) kind(hash uint64) (k pageKind, begins int) {
	x := mix(hash ^ 0xc4a96e5)
	for k := pageAlways; k < numPageKinds; k++ {
		if x>>32 < p.bounds[k] {
			return k, 1 + int(x&0xffff)%p.span
		}
	}
	return pageSteady, 0
}

// version says in which generation, up to gen, a page's text changed last, if it changes in some.
func (p *pageChanges) version(hash uint64, gen int) int {
	for v := gen; v > 0; v-- {
		if mix(hash+uint64(v)*0x8cb92ba72f3d8dd7)>>32 < p.rate {
			return v
		}
	}
	return 0
}

// pageState is a page of the tree or an orphan in one generation. Text, content and body are the generations in which
// these changed last: what a reader sees, the title included; that or the canonical URL or the robots meta element; any
// byte of the body.
type pageState struct {
	kind                pageKind
	status              int // 200, a redirect, 404 or 410
	to                  int // node that it redirects to
	text, content, body int
	prose               int  // generation of the text between links
	title               int  // generation of the title
	elsewhere           bool // its canonical URL is the root's
	noindex             bool
	disallowed          bool
	hidden              bool // neither its parent nor the sitemap names it
}

// state says what a page of the tree, an orphan or a moved page is in a generation.
func (w *web) state(r ref, gen int) pageState {
	s := pageState{status: http.StatusOK}
	if !w.changes.on {
		return s
	}
	original := w.original(r.host, r.node)
	if original > 0 {
		w.changePage(&s, r, original, gen)
	}
	if w.changes.relinks && s.status == http.StatusOK {
		s.prose = max(s.prose, w.relinked(r.host, original, gen))
	}
	s.text = max(s.text, s.prose, s.title)
	s.content = max(s.content, s.text)
	s.body = max(s.body, s.content)
	return s
}

// changePage is the part of state that the page's own kind decides.
func (w *web) changePage(s *pageState, r ref, original, gen int) {
	hash := nodeHash(w.cfg.Seed, r.host, original)
	var begins int
	s.kind, begins = w.changes.kind(hash)
	happened := gen >= begins
	switch s.kind {
	case pageAlways:
		s.prose = gen
	case pageCounter:
		s.text = gen
	case pageSometimes:
		s.prose = w.changes.version(hash, gen)
	case pageTokens:
		s.body = gen
	case pageMove:
		switch {
		case r.node != original && !happened:
			s.status = http.StatusNotFound
		case r.node == original && happened:
			s.status, s.to = http.StatusMovedPermanently, w.movedBase(r.host)+original
		}
	case pageAppear:
		if s.prose = begins; !happened {
			s.status, s.hidden = http.StatusNotFound, true
		}
	case pageVanish:
		away := [...]int{1, 1, 2, maxGeneration}[hash>>8&3]
		if happened && gen < begins+away {
			s.status = http.StatusNotFound + int(hash>>16&1)*(http.StatusGone-http.StatusNotFound)
		}
	default:
		if happened {
			s.changeOnce(begins, hash, w.parent(original))
		}
	}
}

// changeOnce makes the change of a kind that changes once and only in one way.
func (s *pageState) changeOnce(begins int, hash uint64, parent int) {
	switch s.kind {
	case pageRedirect:
		s.status, s.to = [...]int{
			http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		}[hash>>8&3], parent
	case pageTitle:
		s.title = begins
	case pageCanonical:
		s.elsewhere, s.content = true, begins
	case pageNoIndex:
		s.noindex, s.content = true, begins
	case pageNoIndexHeader:
		s.noindex = true
	case pageDisallow:
		s.disallowed = true
	case pageUnlink:
		s.hidden = true
	}
}

// parent is the page that links to another in the tree; orphans get the root.
func (w *web) parent(node int) int {
	if node < 1 || node >= w.cfg.Pages {
		return 0
	}
	return (node - 1) / w.fan
}

// relinked is the generation in which a link of a page to one of its children last appeared or vanished.
func (w *web) relinked(host, node, gen int) (last int) {
	first, end := w.children(node)
	for child := first; child < end; child++ {
		k, begins := w.changes.kind(nodeHash(w.cfg.Seed, host, child))
		if (k == pageAppear || k == pageUnlink) && begins <= gen {
			last = max(last, begins)
		}
	}
	return last
}

// children returns the children of a page in the tree, up to end. A page has links enough for all of them.
func (w *web) children(node int) (first, end int) {
	if node >= w.cfg.Pages {
		return 0, 0
	}
	first = min(node*w.fan+1, w.cfg.Pages)
	return first, min(first+w.fan, w.cfg.Pages)
}

// isRelinked reports whether links to a page appear or vanish. No page but its parent links to it.
func (w *web) isRelinked(r ref) bool {
	if r.node == 0 {
		return false
	}
	k, _ := w.changes.kind(nodeHash(w.cfg.Seed, r.host, r.node))
	return k == pageAppear || k == pageUnlink
}

// isDisallowed reports whether robots.txt disallows a page of the tree in a generation.
func (w *web) isDisallowed(r ref, gen int) bool {
	p := w.plans[r.host]
	return w.changes.disallows && p.robots.readable() && p.down(gen) == nil && w.state(r, gen).disallowed
}

// isMoving reports whether a page moves to another URL in some generation.
func (w *web) isMoving(r ref) bool {
	if r.node == 0 {
		return false
	}
	k, _ := w.changes.kind(nodeHash(w.cfg.Seed, r.host, r.node))
	return k == pageMove
}

// movedBase is the number of the first URL that pages move to: that of page n is movedBase + n. Most of them are never
// used.
func (w *web) movedBase(host int) int { return w.leafBase() + len(w.plans[host].leaves) }

// original is the page that a node is or was before it moved.
func (w *web) original(host, node int) int {
	if base := w.movedBase(host); node >= base {
		return node - base
	}
	return node
}
