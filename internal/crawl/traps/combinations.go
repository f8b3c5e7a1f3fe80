package traps

import (
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// runawayParams finds queries to which every click adds: too many parameters, or the same pair three times.
func runawayParams(query string, most int) bool {
	if strings.Count(query, "=") <= 2 && strings.Count(query, "&") < most {
		return false
	}
	seen := make(map[string]int, 16)
	total := 0
	for query != "" {
		var pair string
		pair, query = cutAny(query, "&;")
		if pair == "" {
			continue
		}
		total++
		if seen[pair]++; total > most || seen[pair] == 3 {
			return true
		}
	}
	return false
}

// combinations counts what queries one path is found with. A listing that lets filters be combined has as many URLs as
// there are combinations, and if it writes them in the order of the clicks, each again in every order; both grow beyond
// all bounds from a handful of values. A path of which every page is named by a parameter has many URLs too, but with
// each of them comes a value that is new.
type combinations struct {
	paths   fifo[*comboPath] // by host and path
	sets    fifo[uint64]     // by path and pairs in any order: the first query that was admitted
	queries fifo[struct{}]   // re-orderings that were admitted
	pairs   fifo[struct{}]   // by path and pair
}

// comboPath is what is known of one path.
type comboPath struct {
	sets      uint32 // combinations of three or more parameters that were admitted
	pairs     uint32 // different pairs among them
	reordered uint32 // queries that were admitted and are another one in another order
}

const (
	// How much is remembered. What is forgotten makes the count of re-orderings too low and that of new values too
	// high, so that a trap costs more and no page is lost.
	maxComboPaths   = 1 << 16
	maxComboSets    = 1 << 18
	maxComboQueries = 1 << 16
	maxComboPairs   = 1 << 17

	// fewValues is how many combinations there must be for each value for them to be combinations of a handful of
	// values.
	fewValues = 10
	// endlessValues is how many times the limit a path may have where that is not so.
	endlessValues = 50
	// orderedSets is how many combinations a path that re-orders its parameters may have, for each re-ordering it may
	// have.
	orderedSets = 10
)

func newCombinations() combinations {
	return combinations{newFIFO[*comboPath](maxComboPaths), newFIFO[uint64](maxComboSets),
		newFIFO[struct{}](maxComboQueries), newFIFO[struct{}](maxComboPairs)}
}

// combo is a query as it is counted.
type combo struct {
	path, set uint64 // the set does not depend on the order of the pairs
	query     uint64
	pairs     [8]uint64 // the first of them, each with its path
	count     int
}

// comboOf takes a query of two or more parameters apart.
func (h hasher) comboOf(u weburl.URL) (q combo, ok bool) {
	rest := u.Query()
	if strings.IndexByte(rest, '&') < 0 {
		return q, false
	}
	q.path, q.query = h.sum(u.Host(), u.Path()), h.sum(rest)
	q.set = q.path
	for rest != "" {
		var pair string
		if pair, rest = cutAny(rest, "&;"); pair == "" {
			continue
		}
		sum := h.sum(pair)
		q.set += sum * (sum | 1)
		if q.count < len(q.pairs) {
			q.pairs[q.count] = q.path ^ sum
		}
		q.count++
	}
	return q, q.count >= 2
}

// words are those of evidence of kind EvidenceCombination. The pairs of two parameters are not counted.
func (q *combo) words() []uint64 {
	words := []uint64{q.set, q.query}
	if q.count >= 3 {
		words = append(words, q.pairs[:min(q.count, len(q.pairs))]...)
	}
	return words
}

// judge says whether a query is one too many.
func (c *combinations) judge(q *combo, variants int) bool {
	p, ok := c.paths.get(q.path)
	if !ok {
		return false
	}
	full := int(p.reordered) >= MaxReorders
	if before, known := c.sets.get(q.set); known {
		return full && before != q.query && !c.queries.has(q.set^q.query)
	}
	if q.count < 3 { // fewer are paging and simple filters, which grow no faster than the site
		return false
	}
	if p.pairs*fewValues > p.sets {
		return int(p.sets) >= variants*endlessValues
	}
	if full {
		variants = min(variants, MaxReorders*orderedSets)
	}
	return int(p.sets) >= variants
}

// observe takes evidence of kind EvidenceCombination: a query that was admitted.
func (c *combinations) observe(path, set, query uint64, pairs []uint64) {
	p, ok := c.paths.get(path)
	if !ok {
		p = &comboPath{}
		c.paths.put(path, p)
	}
	if before, known := c.sets.get(set); known {
		if before != query && c.queries.add(set^query) {
			p.reordered++
		}
		return
	}
	c.sets.put(set, query)
	if len(pairs) == 0 {
		return
	}
	p.sets++
	for _, pair := range pairs {
		if c.pairs.add(pair) {
			p.pairs++
		}
	}
}
