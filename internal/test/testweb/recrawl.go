package testweb

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Changes that a recrawl records, by the names its output has for them.
const (
	ChangeNew       = "new"
	ChangeChanged   = "changed"
	ChangeUnchanged = "unchanged"
	ChangeGone      = "gone"
	ChangeBack      = "back"
)

// Sources of a lastmod.
const (
	LastModHeader  = "header"  // Last-Modified
	LastModSitemap = "sitemap" // the host's sitemap
	LastModChanged = "changed" // when the crawler saw the last change
)

// maxStale is for how many recrawls in a row the facts of a page are kept that cannot be fetched.
const maxStale = 3

// Recrawled is what a correct recrawl reports of one URL. Expectation has the facts that hold after it, without a
// depth.
type Recrawled struct {
	Expectation
	Canonical string `json:"canonical,omitempty"` // of a page of the tree that is ok
	// how the page changes, as in Changes; empty if it is no page of the tree
	Kind string `json:"kind,omitempty"`

	// Change is new, changed, unchanged, gone or back; empty in the first crawl and if the URL is stale.
	Change string `json:"change,omitempty"`
	// Differences are those between this crawl's record and that of the crawl before. None if Change is new.
	Differences []Difference `json:"differences,omitempty"`

	First       int  `json:"first"`        // the crawl that found it, 0 is the first
	Changed     int  `json:"changed"`      // the last crawl that saw a change; 0 if none has
	Stale       int  `json:"stale"`        // crawls in a row that failed while earlier facts were kept
	NotModified bool `json:"not_modified"` // the host answers 304 if asked with the validators that it gave last
	Unlinked    bool `json:"unlinked"`     // no start, redirect, sitemap or link of another page names it
	// Volatile is whether the text differed by a number, and in nothing else, in each of the last three crawls that
	// read it. The first change of a page that the first crawl found does not count: a first crawl does not measure how
	// similar texts are.
	Volatile bool `json:"volatile"`

	// Undefined is whether only the URL is to be compared: robots.txt disallowed the page and could not be read later.
	// Whether the rules are kept then is the crawler's decision.
	Undefined bool `json:"undefined,omitempty"`

	// LastMod is what an XML sitemap says, zero if nothing, and LastModFrom where it comes from. It is zero if it comes
	// from LastModChanged: only the crawler knows that time. Both are right if generations begin more than a minute
	// before they are crawled, since a Last-Modified that is younger than a minute tells nothing.
	LastMod     time.Time `json:"lastmod,omitzero"`
	LastModFrom string    `json:"lastmod_from,omitempty"`
}

// Difference is something that changed from one crawl to the next. Fields and values are named as in a crawl's output;
// a hash has no values here.
type Difference struct {
	Field  string `json:"field"` // outcome, status_code, redirect_to, title, canonical_url, noindex or text_hash
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// ExpectedRecrawl returns what the last of several crawls of the same data directory reports, but for URLs inside
// traps. The first is a crawl, the others are recrawls of everything; generations are those that the web had during
// each. So ExpectedRecrawl(c, 0, 1, 1) is about a second recrawl before which nothing changed. Two bytes and two bits
// are kept for each URL.
func (s *Server) ExpectedRecrawl(c Crawl, generations ...int) (iter.Seq[Recrawled], error) {
	c = c.withDefaults(s)
	h, err := newHistory(s.web, c, s.generation.Load(), generations)
	if err != nil {
		return nil, fmt.Errorf("expect recrawl: %w", err)
	}
	return h.run, nil
}

// history is a series of crawls of one web.
type history struct {
	w     *web
	c     Crawl
	gens  []*generation // by crawl
	walk  *walk
	found [][]finding // by host and node; nil for a host of which nothing was found
}

// finding is when a URL was found.
type finding struct {
	crawl uint8 // one more than the number of the crawl; 0 if it was not found yet
	hops  uint8 // redirects in a row that led to it
}

func newHistory(w *web, c Crawl, now *generation, generations []int) (*history, error) {
	switch {
	case len(generations) == 0 || len(generations) > maxGeneration:
		return nil, fmt.Errorf("%d crawls: want 1 to %d", len(generations), maxGeneration)
	case c.MaxDepth > 0:
		return nil, errors.New("with a depth limit, what a recrawl finds is not defined")
	}
	h := &history{w: w, c: c}
	latest, err := now.to(max(now.n, slices.Max(generations)), time.Time{}) // so that all have their dates
	if err != nil {
		return nil, err
	}
	for _, n := range generations {
		gen, err := latest.to(n, time.Time{})
		if err != nil {
			return nil, err
		}
		h.gens = append(h.gens, gen)
	}
	h.walk, err = newWalk(w, c, h.gens[0])
	return h, err
}

// run goes through all crawls and yields what the last one reports.
func (h *history) run(yield func(Recrawled) bool) {
	h.found = make([][]finding, len(h.w.plans))
	for crawl := range h.gens {
		again := &revisit{h: h, crawl: crawl, named: newNodeSet(h.w)}
		wk := *h.walk
		wk.gen, wk.again = h.gens[crawl], again
		wk.run(func(st step, _ int, _ verdict) bool {
			if f := h.finding(st.ref()); f.crawl == 0 {
				*f = finding{uint8(crawl + 1), uint8(min(st.hops, 255))}
			}
			return true
		})
		if crawl < len(h.gens)-1 {
			continue
		}
		again.report(yield)
	}
}

func (h *history) finding(r ref) *finding {
	if h.found[r.host] == nil {
		h.found[r.host] = make([]finding, h.w.nodes(r.host))
	}
	return &h.found[r.host][r.node]
}

// revisit is one crawl of a history.
type revisit struct {
	h     *history
	crawl int
	named nodeSet // what a start, a redirect, a sitemap or a link of another page names
}

// each calls f for all URLs that were found so far.
func (v *revisit) each(f func(step)) {
	for host, list := range v.h.found {
		for node := range list {
			if list[node].crawl > 0 {
				f(step{int32(host), int32(node), int16(list[node].hops)})
			}
		}
	}
}

// lastRead returns the generation in which a host answered last.
func (v *revisit) lastRead(host int) *generation {
	for crawl := v.crawl; crawl > 0; crawl-- {
		if v.h.w.plans[host].down(v.h.gens[crawl].n) == nil {
			return v.h.gens[crawl]
		}
	}
	return v.h.gens[0]
}

// crawlRecord is what a crawl has recorded of a URL.
type crawlRecord struct {
	verdict verdict
	gen     *generation // in which that was read
	state   pageState   // of a page of the tree that is ok
	isPage  bool        // state is set
	stale   int         // crawls since that could not fetch it
}

// record is what this crawl records of a URL.
func (v *revisit) record(r ref) crawlRecord { return v.h.record(r, v.crawl) }

// record is what a crawl records of a URL that it or an earlier one found. If the host is down, the facts of an earlier
// crawl are kept for a while.
func (h *history) record(r ref, crawl int) crawlRecord {
	first := crawl
	if f := h.finding(r); f.crawl > 0 {
		first = min(crawl, int(f.crawl)-1)
	}
	read := crawl
	for read > first && h.w.plans[r.host].down(h.gens[read].n) != nil {
		read--
	}
	if h.w.plans[r.host].down(h.gens[read].n) != nil || crawl-read > maxStale {
		read = crawl
	}
	rec := crawlRecord{gen: h.gens[read], stale: crawl - read}
	rec.verdict = h.w.verdict(r, h.c, rec.gen.n)
	p := h.w.plans[r.host]
	if rec.verdict.good() && p.same == nil && h.w.leaf(r.host, r.node) == nil {
		rec.state, rec.isPage = h.w.state(r, rec.gen.n), true
	}
	return rec
}

// report yields what the crawl reports.
func (v *revisit) report(yield func(Recrawled) bool) {
	more := true
	v.each(func(st step) {
		more = more && yield(v.recrawled(st))
	})
}

// recrawled is what the crawl reports of one URL.
func (v *revisit) recrawled(st step) Recrawled {
	h, r := v.h, st.ref()
	now := v.record(r)
	out := Recrawled{
		Expectation: h.w.expectation(st, h.c, now.verdict),
		Canonical:   h.canonical(r, now),
		First:       int(h.finding(r).crawl) - 1,
		Stale:       now.stale,
		Unlinked:    !v.named.has(r),
	}
	if h.w.changes.on && h.w.leaf(r.host, r.node) == nil {
		out.Kind = h.w.state(r, now.gen.n).kind.String()
	}
	// crawls in a row that saw a number change; whether Last-Modified moved while the text stayed
	counted, misdated := 0, false
	for crawl := out.First + 1; crawl <= v.crawl; crawl++ {
		before, after := h.record(r, crawl-1), h.record(r, crawl)
		out.Differences = h.differences(r, before, after)
		out.Change = changeOf(before, after, out.Differences)
		switch measured := out.First > 0 || out.Changed > 0; {
		case after.stale > 0:
		case measured && h.countedOn(r, before, after):
			counted++
		default:
			counted = 0
		}
		if len(out.Differences) > 0 {
			out.Changed = crawl
		}
		if before.isPage && after.isPage && before.state.text == after.state.text &&
			before.state.content != after.state.content {
			misdated = true
		}
		out.NotModified = h.isUnmodified(r, before, after)
		out.Undefined = out.Undefined || h.isUndefined(r, before, crawl)
	}
	if out.First == v.crawl && v.crawl > 0 {
		out.Change = ChangeNew
	}
	out.Volatile = counted >= 3
	if now.verdict.good() && !out.Volatile {
		out.LastMod, out.LastModFrom = v.lastMod(r, now, misdated, out.Changed > 0)
	}
	return out
}

// countedOn reports whether the texts of two records differ by the number of a counter and nothing else.
func (h *history) countedOn(r ref, before, after crawlRecord) bool {
	if !before.isPage || !after.isPage || after.state.kind != pageCounter || before.state.text == after.state.text {
		return false
	}
	original := h.w.original(r.host, r.node)
	return h.w.relinked(r.host, original, before.gen.n) == h.w.relinked(r.host, original, after.gen.n)
}

// changeOf says what a recrawl makes of two records.
func changeOf(before, after crawlRecord, differences []Difference) string {
	isGone := func(v verdict) bool { return v.status == http.StatusNotFound || v.status == http.StatusGone }
	switch {
	case after.stale > 0:
		return ""
	case len(differences) == 0:
		return ChangeUnchanged
	case (before.verdict.good() || before.verdict.redirects()) && isGone(after.verdict):
		return ChangeGone
	case isGone(before.verdict) && after.verdict.good():
		return ChangeBack
	}
	return ChangeChanged
}

// isUndefined reports whether robots.txt cannot be read in a crawl and disallowed the page before.
func (h *history) isUndefined(r ref, before crawlRecord, crawl int) bool {
	return before.verdict.outcomes[0] == OutcomeBlockedByRobots && h.w.plans[r.host].down(h.gens[crawl].n) != nil
}

// isUnmodified reports whether the host answers 304 to the validators of an earlier record.
func (h *history) isUnmodified(r ref, before, after crawlRecord) bool {
	if !before.isPage || !after.isPage || after.stale > 0 {
		return false
	}
	date := func(rec crawlRecord) time.Time {
		return rec.gen.modified(nodeHash(h.w.cfg.Seed, r.host, h.w.original(r.host, r.node)), rec.state.content)
	}
	switch h.w.plans[r.host].validators {
	case validAlways304, validBare304:
		return true
	case validNever304, validNone, validNow, validUnasked304:
		return false
	case validDate:
		return !date(after).After(date(before))
	case validFuture:
		return after.state.content <= before.state.content
	}
	return before.state.body == after.state.body
}

// canonical is the canonical URL that a record has.
func (h *history) canonical(r ref, rec crawlRecord) string {
	if !rec.isPage {
		return ""
	}
	return h.w.url(ref{r.host, h.w.canonicalNode(r.node, rec.state)})
}

func (h *history) differences(r ref, before, after crawlRecord) []Difference {
	var list []Difference
	add := func(field, b, a string) {
		if a != b {
			list = append(list, Difference{field, b, a})
		}
	}
	location := func(v verdict) string {
		if to, ok := h.w.target(r, v); ok {
			return h.w.url(to)
		}
		return ""
	}
	status := func(v verdict) string {
		if v.status == 0 {
			return ""
		}
		return strconv.Itoa(v.status)
	}
	b, a := before.verdict, after.verdict
	add("outcome", b.outcomes[0], a.outcomes[0])
	add("status_code", status(b), status(a))
	add("redirect_to", location(b), location(a))
	if a.good() {
		add("title", b.title, a.title)
	}
	if a.good() && b.good() {
		add("canonical_url", h.canonical(r, before), h.canonical(r, after))
		add("noindex", strconv.FormatBool(before.state.noindex), strconv.FormatBool(after.state.noindex))
		if before.state.text != after.state.text {
			list = append(list, Difference{Field: "text_hash"})
		}
	}
	return list
}

// lastMod says what an XML sitemap has for a page: the date of its header if that tells something, else that of the
// host's sitemap, else when a change was seen.
func (v *revisit) lastMod(r ref, rec crawlRecord, misdated, changed bool) (at time.Time, from string) {
	w := v.h.w
	mode := w.plans[r.host].validators
	original := ref{r.host, w.original(r.host, r.node)}
	if rec.isPage && mode.hasDate() && mode != validNow && mode != validFuture && !misdated {
		return rec.gen.modified(nodeHash(w.cfg.Seed, r.host, original.node), rec.state.content), LastModHeader
	}
	isStart := slices.ContainsFunc(v.h.walk.starts, func(start ref) bool { return start.host == r.host })
	if isStart && !v.h.c.NoSitemaps && original.node < w.leafBase() {
		if now, at, ok := w.listed(original, v.lastRead(r.host)); ok && now == r.node && !at.IsZero() {
			return at, LastModSitemap
		}
	}
	if changed {
		return time.Time{}, LastModChanged
	}
	return time.Time{}, ""
}
