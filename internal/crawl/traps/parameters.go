package traps

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// parameters finds components of URLs that have no effect on the pages, such as session identifiers. A page with such
// components is fetched with one value of them only.
//
// A rest is a URL without the value of one component. Two pages with the same rest, different
// values and the same text agree; with different words they differ. If only their numbers are
// different, which may be counters of visits or tables, they say nothing. A component has no effect if
// pages agree on many paths, with many values and many texts, and hardly any differ.
type parameters struct {
	rests    fifo[observation] // by component and rest
	seen     fifo[uint32]      // by component: how many rests were put in, up to manyRests
	subjects fifo[*subject]    // components of which pages agreed or differed
	claims   fifo[claim]       // by URL without the values of all ineffective components
}

// An observation is what was seen of a rest.
type observation struct {
	value, text, words uint64 // of the first page
	state              observed
}

type observed uint8

const (
	seenOnce observed = iota
	agreed
	differed // it stays so, also if later pages agree
)

// A subject is what is known of one component.
type subject struct {
	agree, differ        uint32   // rests
	paths, texts, values []uint64 // of pages that agreed: different ones, up to the bounds below
}

// A claim says which URL stands for all that differ from it in ineffective components only. A later one
// has a greater version.
type claim struct {
	owner    uint64 // hash of the URL; 0 if its fetch failed
	version  uint32
	failures uint8
	repeats  uint8 // of the owner's link
}

const (
	maxRests       = 1 << 17
	maxSeen        = 1 << 13
	maxSubjects    = 1 << 13
	maxIneffective = 1 << 12
	maxClaims      = 1 << 19

	// If a component has manyRests rests and no two pages agreed, one rest in restSample is looked at, until two pages
	// agree. Most sites put pages into directories, and have no rest twice: evidence about every page was 3 % of the
	// CPU and a tenth of the log of scenario (a).
	manyRests  = 1024
	restSample = 16

	// What a component without effect must have: see docs/traps.md.
	ineffectivePaths = 5
	ineffectiveTexts = 5
	onePathTexts     = 20 // if there are fewer paths
	agreePerDiffer   = 10

	// maxFailures is how many URLs of a page may fail before the page counts as fetched.
	maxFailures = 3
)

func newParameters() parameters {
	return parameters{
		newFIFO[observation](maxRests), newFIFO[uint32](maxSeen), newFIFO[*subject](maxSubjects),
		newFIFO[claim](maxClaims),
	}
}

// learns reports whether a page with this rest can say something about a component. It cannot if the rest is not looked
// at, or if pages with the rest differed.
func (p *parameters) learns(id, rest uint64) bool {
	if rest%restSample != 0 && p.isSampled(id) {
		return false
	}
	o, ok := p.rests.get(id ^ rest)
	return !ok || o.state != differed
}

// isSampled reports whether only some rests of a component are looked at.
func (p *parameters) isSampled(id uint64) bool {
	if n, _ := p.seen.get(id); n < manyRests {
		return false
	}
	s, ok := p.subjects.get(id)
	return !ok || s.agree == 0
}

// observe takes evidence of kind EvidenceParameter, and reports whether the component now counts as one without effect.
// The caller leaves out components that already do.
func (p *parameters) observe(id, rest, path uint64, now observation) bool {
	key := id ^ rest
	o, known := p.rests.get(key)
	if !known {
		p.rests.put(key, now)
		if n, _ := p.seen.get(id); n < manyRests {
			p.seen.put(id, n+1)
		}
		return false
	}
	if o.state == differed || o.value == now.value || o.text != now.text && o.words == now.words {
		return false
	}
	s, ok := p.subjects.get(id)
	if !ok {
		s = &subject{}
		p.subjects.put(id, s)
	}
	if o.text != now.text {
		if o.state == agreed {
			s.agree--
		}
		s.differ++
		if p.isSampled(id) {
			s.differ += restSample - 1 // it stands for those that are not looked at
		}
		o.state = differed
		p.rests.put(key, o)
		return false
	}
	if o.state == seenOnce {
		s.agree++
		o.state = agreed
		p.rests.put(key, o)
	}
	addTo(&s.paths, path, ineffectivePaths)
	addTo(&s.texts, now.text, onePathTexts)
	addTo(&s.values, o.value, MinValues)
	addTo(&s.values, now.value, MinValues)
	return s.isIneffective()
}

func (s *subject) isIneffective() bool {
	many := len(s.paths) >= ineffectivePaths && len(s.texts) >= ineffectiveTexts || len(s.texts) >= onePathTexts &&
		s.agree >= onePathTexts
	return many && len(s.values) >= MinValues && s.differ*agreePerDiffer < s.agree
}

// addTo adds to a small set, which stops at a bound.
func addTo(set *[]uint64, v uint64, most int) {
	if len(*set) < most && !slices.Contains(*set, v) {
		*set = append(*set, v)
	}
}

// restOf returns the hash of a URL without the values of its ineffective components, and the subject of the first of
// them. It reports false if the URL has none. It takes no lock, and hashes nothing while no component is ineffective.
func (t *Traps) restOf(u weburl.URL) (rest, id uint64, ok bool) {
	suspected := t.ineffective.Load()
	if !t.on || suspected.len() == 0 {
		return 0, 0, false
	}
	var buf [maxComponents]component
	list := slices.DeleteFunc(t.hash.appendComponents(buf[:0], u), func(c component) bool {
		return !suspected.has(c.subject)
	})
	if len(list) == 0 {
		return 0, 0, false
	}
	id = list[0].subject
	slices.SortFunc(list, func(a, b component) int { return cmp.Or(a.start-b.start, b.end-a.end) })
	var left strings.Builder
	text, at := u.String(), 0
	for _, c := range list {
		if c.start >= at { // components overlap: a path parameter with its segment, a value with its query
			left.WriteString(text[at:c.start])
			left.WriteByte(0)
			at = c.end
		}
	}
	left.WriteString(text[at:])
	return t.hash.sum(left.String()), id, true
}

// mayClaim reports whether a URL may stand for its rest.
func (c *claim) mayClaim(url uint64, repeats uint8) bool {
	return c.owner == url || c.owner == 0 && c.failures < maxFailures || c.owner != 0 && repeats < c.repeats
}

// claim makes a URL stand for its rest.
func (t *Traps) claim(rest, url uint64, repeats uint8, partition uint8, e []frontier.Evidence) []frontier.Evidence {
	c, _ := t.params.claims.get(rest)
	if c.owner != url {
		c.owner, c.repeats = url, repeats
		c.version++
	}
	return t.apply(e, claimEvidence(partition, rest, c))
}

func claimEvidence(partition uint8, rest uint64, c claim) frontier.Evidence {
	return frontier.Evidence{Partition: partition, Kind: EvidenceClaim, Subject: rest,
		Words: []uint64{c.owner, c.word()}}
}

// word returns everything of a claim except its owner, as one number.
func (c *claim) word() uint64 {
	return uint64(c.version)<<16 | uint64(c.failures)<<8 | uint64(c.repeats)
}

func claimOf(owner, word uint64) claim {
	return claim{owner: owner, version: uint32(word >> 16), failures: uint8(word >> 8), repeats: uint8(word)}
}

// takeClaim takes evidence of kind EvidenceClaim.
func (p *parameters) takeClaim(rest uint64, c claim) {
	if before, ok := p.claims.get(rest); !ok || before.version < c.version {
		p.claims.put(rest, c)
	}
}
