package frontier

import (
	"github.com/mapwright/mapwright/frontier/dedup"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// known tells new links from known ones, for the partitions of one shard. It is
// guarded by the shard's mutex.
//
// A key that was claimed is known for good. The set of recent keys holds some of
// these keys, the filters all of them and by mistake a few others. So a key that the
// set does not hold and the filters do is in doubt: it is looked up in the store
// without the mutex, and is in doubts meanwhile.
type known struct {
	filters dedup.Filters
	recent  *dedup.Recent
	doubts  map[weburl.Key]*doubt

	gate   *gate
	higher promotions

	links, hot, filtered int64 // see Stats
	doubtful, erred      int64 // likewise
}

// A doubt is a key that is being looked up in the store, by refs calls. If one of
// them, or any other, claims the key, the others must not.
type doubt struct {
	refs    int
	claimed bool
}

func (n *known) init(o *Options, recentBytes int, g *gate) {
	n.filters.Init(o.FilterCapacity, o.FilterFPRate)
	n.recent = dedup.NewRecent(recentBytes)
	n.doubts = map[weburl.Key]*doubt{}
	n.gate = g
}

// lookup returns the state of a link with a key and names: known, unnamed, candidate or doubtful. A doubtful key stays
// in doubts until settle or endDoubt is called.
func (n *known) lookup(k weburl.Key, depth uint16, names Names) linkState {
	if marks, ok := n.recent.Find(k); ok {
		n.hot++
		n.again(k, depth)
		if names&^Names(marks) != 0 {
			return linkUnnamed
		}
		return linkKnown
	}
	if !n.filters.Has(k) {
		return linkCandidate
	}
	n.doubtful++
	d := n.doubts[k]
	if d == nil {
		d = &doubt{}
		n.doubts[k] = d
	}
	d.refs++
	return linkDoubtful
}

// again notes that a known link was found at a depth that may be its least.
func (n *known) again(k weburl.Key, depth uint16) {
	if n.gate.on && int(depth) <= depthOf(uint8(n.gate.open.Load())) {
		n.higher.note(k, depth)
	}
}

// name notes that names of a known key are on record in this generation, and returns those
// that were not noted before.
func (n *known) name(k weburl.Key, names Names) Names {
	marks, _ := n.recent.Find(k)
	n.recent.Add(k, uint8(names))
	return names &^ Names(marks)
}

// claim makes a key known, with its names.
func (n *known) claim(k weburl.Key, names Names) {
	n.recent.Add(k, uint8(names))
	n.filters.Add(k)
	if d := n.doubts[k]; d != nil {
		d.claimed = true
	}
}

// remember makes a key known that the store has recorded; it may be known already.
func (n *known) remember(k weburl.Key) {
	if n.filters.Has(k) {
		n.recent.Add(k, 0)
	} else {
		n.claim(k, 0)
	}
}

// isClaimed reports whether a key in doubt was claimed since the store was asked.
func (n *known) isClaimed(k weburl.Key) bool {
	_, recent := n.recent.Find(k)
	return recent || n.doubts[k].claimed
}

// settle ends the doubt about a link. If the store was asked and the link is still
// doubtful, it is known.
func (n *known) settle(k weburl.Key, depth uint16, st linkState, asked bool) {
	switch {
	case st == linkVerified:
		n.erred++
	case asked:
		n.recent.Add(k, 0)
		n.again(k, depth)
	}
	n.endDoubt(k)
}

// endDoubt ends the lookup of a key by one call.
func (n *known) endDoubt(k weburl.Key) {
	if d := n.doubts[k]; d.refs > 1 {
		d.refs--
	} else {
		delete(n.doubts, k)
	}
}

// addStats adds the counters and sizes to the statistics.
func (n *known) addStats(st *Stats) {
	st.Links += n.links
	st.HotHits += n.hot
	st.Filtered += n.filtered
	st.Doubtful += n.doubtful
	st.Erred += n.erred
	recent := n.recent.Stats()
	st.HotKeys += recent.Len
	st.HotBytes += recent.Bytes
	keys, bytes := n.filters.Size()
	st.FilterKeys += keys
	st.FilterBytes += bytes
}

// promotions are known links that were found again, perhaps at a smaller depth than they are queued with: by a
// redirect, which keeps its page's depth, or in a sitemap. They matter only if the gate is on, because a URL's depth
// must then be its least. A link that is promoted while a level is open is leased before the next level ends.
type promotions struct {
	now, before map[weburl.Key]uint16
}

func (p *promotions) note(k weburl.Key, depth uint16) {
	if p.now == nil {
		p.now = map[weburl.Key]uint16{}
	}
	if old, ok := p.now[k]; !ok || depth < old {
		p.now[k] = depth
	}
}

// age forgets the promotions of the level before the last.
func (p *promotions) age() { p.now, p.before = nil, p.now }

// correct is the depth to lease a URL with.
func (p *promotions) correct(k weburl.Key, depth uint16) uint16 {
	for _, m := range []map[weburl.Key]uint16{p.now, p.before} {
		if d, ok := m[k]; ok {
			depth = min(depth, d)
		}
	}
	return depth
}
