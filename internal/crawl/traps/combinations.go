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

// combinations counts the queries that each path is found with. A listing whose filters can be combined has a URL for
// each combination. If it writes the filters in the order of the clicks, it has a URL for each order of them too. A
// handful of values then makes URLs without end. A path whose pages are named by a parameter also has many URLs, but
// each of them brings a new value.
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
	reordered uint32 // admitted queries that are an earlier one in another order
}

const (
	// How much is remembered. What is forgotten makes the count of re-orderings too low and the count of new values too
	// high. Then a trap costs more, and no page is lost.
	maxComboPaths   = 1 << 16
	maxComboSets    = 1 << 18
	maxComboQueries = 1 << 16
	maxComboPairs   = 1 << 17

	// fewValues: a path combines a handful of values if it has at least this many combinations for each value.
	fewValues = 10
	// endlessValues is by how much the limit is multiplied for a path that brings new values.
	endlessValues = 50
	// orderedSets: a path that has reached MaxReorders may have MaxReorders*orderedSets combinations.
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
	pairs     [8]uint64 // of the first pairs, each with its path
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

// words returns the words of evidence of kind EvidenceCombination. If there are only two parameters, their pairs are
// left out.
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
