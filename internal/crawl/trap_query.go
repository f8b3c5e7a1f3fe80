package crawl

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/internal/urlnorm"
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
		pair, query, _ = cutAny(query, "&;")
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

// combinations counts what queries one path is found with. A listing that lets filters be combined has as many URLs as there are
// combinations, and if it writes them in the order of the clicks, each again in every order; both grow beyond all bounds from a handful of
// values. A path of which every page is named by a parameter has many URLs too, but with each of them comes a value that is new.
type combinations struct {
	crowds atomic.Int32 // paths of which enough traps are on record

	mu    sync.Mutex
	paths map[uint64]*comboPath // guarded by mu; by host and path
	sets  map[uint64]uint64     // guarded by mu; by path and pairs in whatever order: the query that was let through
	pairs map[uint64]struct{}   // guarded by mu; by path and pair
}

// comboPath is what is known of one path.
type comboPath struct {
	sets      int // combinations of three or more parameters that were let through
	pairs     int // different pairs among them
	reordered int // queries that were let through and are another one in another order
	listed    int // of those that were not, how many are on record
}

const (
	// How much is remembered. What is forgotten makes the count of re-orderings too low and that of new values too high, and so a
	// trap more costly and nothing honest a trap.
	maxComboPaths = 1 << 18
	maxComboSets  = 1 << 20
	maxComboPairs = 1 << 19

	// fewValues is how many combinations there must be for each value for them to be combinations of a handful of values.
	fewValues = 10
	// endlessValues is how many times the limit a path may have where that is not so.
	endlessValues = 50
	// orderedSets is how many combinations a path that re-orders its parameters may have, for each re-ordering it may have.
	orderedSets = 10
)

// combo is a query as it is counted.
type combo struct {
	path, set uint64 // the set does not depend on the order of the pairs
	query     uint64
	pairs     [8]uint64 // the first of them, each with its path
	count     int
}

// comboOf takes a query of two or more parameters apart.
func comboOf(u urlnorm.URL) (q combo, ok bool) {
	rest := u.Query()
	if strings.IndexByte(rest, '&') < 0 {
		return q, false
	}
	q.path, q.query = hashOf(u.Host(), u.Path()), xxhash.Sum64String(rest)
	q.set = q.path
	for rest != "" {
		var pair string
		if pair, rest, _ = cutAny(rest, "&;"); pair == "" {
			continue
		}
		h := xxhash.Sum64String(pair)
		q.set += h * (h | 1)
		if q.count < len(q.pairs) {
			q.pairs[q.count] = q.path ^ h
		}
		q.count++
	}
	return q, q.count >= 2
}

// trapped counts a query that is new, unless it is one too many.
func (c *combinations) trapped(u urlnorm.URL, variants, reorders int) bool {
	q, ok := comboOf(u)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.paths[q.path]
	if p == nil {
		makeRoom(c.paths, maxComboPaths)
		p = &comboPath{}
		c.paths[q.path] = p
	}
	if c.judgeLocked(p, &q, variants, reorders) {
		if p.listed++; p.listed == maxTrapsListed {
			c.crowds.Add(1)
		}
		return true
	}
	c.countLocked(p, &q)
	return false
}

// judgeLocked says whether a query is one too many.
func (c *combinations) judgeLocked(p *comboPath, q *combo, variants, reorders int) bool {
	if before, known := c.sets[q.set]; known {
		return reorders > 0 && p.reordered >= reorders && before != q.query
	}
	if variants == 0 || q.count < 3 { // fewer are paging and simple filters, which grow no faster than the site
		return false
	}
	if p.pairs*fewValues > p.sets {
		return p.sets >= variants*endlessValues
	}
	if reorders > 0 && p.reordered >= reorders {
		variants = min(variants, reorders*orderedSets)
	}
	return p.sets >= variants
}

func (c *combinations) countLocked(p *comboPath, q *combo) {
	if before, known := c.sets[q.set]; known {
		if before != q.query { // else two pages found it at the same time
			p.reordered++
		}
		return
	}
	makeRoom(c.sets, maxComboSets)
	c.sets[q.set] = q.query
	if q.count < 3 {
		return
	}
	p.sets++
	for _, pair := range q.pairs[:min(q.count, len(q.pairs))] {
		if _, known := c.pairs[pair]; !known {
			makeRoom(c.pairs, maxComboPairs)
			c.pairs[pair] = struct{}{}
			p.pairs++
		}
	}
}

// crowded says whether a query is one too many of a path of which enough are on record.
func (c *combinations) crowded(u urlnorm.URL, variants, reorders int) bool {
	if c.crowds.Load() == 0 {
		return false
	}
	q, ok := comboOf(u)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.paths[q.path]
	return p != nil && p.listed >= maxTrapsListed && c.judgeLocked(p, &q, variants, reorders)
}
