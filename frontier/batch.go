package frontier

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A batch holds the links of one page, or some seeds, while they go through the dedup, and the lease that ends with
// them, if there is one. Batches are reused.
type batch struct {
	origin   Origin       // of found
	found    []Found      // the caller's
	links    []Link       // the caller's too; the index of a link counts found first, then links
	keys     []weburl.Key // of both
	self     weburl.Key   // of the page that they are on, if there is one
	names    Names        // of found
	states   []linkState
	shards   []*shard // of the links, the lease and the marks; by index
	todo     []int32  // indexes of the links that are not known, or not named
	doubtful int      // how many of todo the store has to be asked about
	fresh    []Link   // the new links to be committed, each once
	from     []int32  // by fresh: index of the link
	admitted int      // for how many of fresh Options.Admit was called
	// What goes into the record besides links and finish.
	evidence []Evidence // of Result and Admit
	skips    []Skip
	marks    []Mark
	named    []Named // of the links
	facts    []CrawlFact
	visits   []Link // the next visit of the URL that is finished, if Result.Again is set

	end     ending
	fin     Finish
	added   int
	foreign []Link // links to be sent to other owners, each once per source

	rec   [1]Record
	ask   []weburl.Key
	seen  []bool
	table []int32 // hash table of fresh, by key: index plus 1
}

// take copies what a result adds to the record. Skips get the partition of the page.
func (b *batch) take(r *Result, partition uint8) {
	b.evidence = append(b.evidence, r.Evidence...)
	b.skips = append(b.skips[:0], r.Skips...)
	for i := range b.skips {
		b.skips[i].Partition = partition
	}
	b.facts = append(b.facts, r.Facts...)
}

// linkState is what the dedup knows of a link so far.
type linkState uint8

const (
	linkKnown     linkState = iota // recorded before, by this page or by another
	linkUnnamed                    // known, and what the link says of its URL is not on record in this generation
	linkCandidate                  // the filter does not know it: new, unless another call records it first
	linkDoubtful                   // the filter knows it; the key is in its shard's doubts
	linkVerified                   // it is not in the store: new, unless another call records it first
	linkForeign                    // its partition is not open here: to be sent
)

// batchMost is how many links go into one record.
const batchMost = 4096

// reset empties a batch, so that it can be used again.
func (b *batch) reset() {
	clear(b.fresh)
	b.rec[0] = Record{}
	b.origin, b.found, b.links, b.self, b.end, b.fin = Origin{}, nil, nil, weburl.Key{}, ending{}, Finish{}
	b.keys, b.states, b.shards, b.todo, b.fresh = b.keys[:0], b.states[:0], b.shards[:0], b.todo[:0], b.fresh[:0]
	clear(b.foreign)
	b.foreign = b.foreign[:0]
	clear(b.evidence)
	clear(b.facts)
	clear(b.visits)
	b.evidence, b.skips, b.marks = b.evidence[:0], b.skips[:0], b.marks[:0]
	b.named, b.facts, b.visits = b.named[:0], b.facts[:0], b.visits[:0]
	b.from, b.table, b.ask = b.from[:0], b.table[:0], b.ask[:0]
	b.names, b.doubtful, b.admitted, b.added = 0, 0, 0, 0
}

// addSkip adds to the counts.
func (b *batch) addSkip(skip Skip) {
	for i := range b.skips {
		if s := &b.skips[i]; s.Partition == skip.Partition && s.Reason == skip.Reason {
			s.Count += skip.Count
			return
		}
	}
	b.skips = append(b.skips, skip)
}

// involve puts a shard into the list, which is short and in order.
func (b *batch) involve(s *shard) {
	for i, t := range b.shards {
		if t == s {
			return
		}
		if t.index > s.index {
			b.shards = slices.Insert(b.shards, i, s)
			return
		}
	}
	b.shards = append(b.shards, s)
}

// depth is the depth of a link, as far as it matters for the order of levels. For a
// sitemap it does not.
func (b *batch) depth(i int) uint16 {
	if i < len(b.found) {
		return b.origin.Depth
	}
	l := &b.links[i-len(b.found)]
	if l.Sitemap {
		return math.MaxUint16
	}
	return l.Depth
}

// appendLink appends link i in the form in which it is recorded or sent. It is not called for known links, which are
// most of them.
func (b *batch) appendLink(list []Link, i int32) []Link {
	if n := int(i) - len(b.found); n >= 0 {
		list = append(list, b.links[n])
	} else {
		o := &b.origin
		list = append(list, Link{
			URL: b.found[i].URL, Depth: o.Depth, Source: o.Source, Repeats: o.Repeats,
			Parent: o.Parent, Discovered: o.At,
		})
	}
	l := &list[len(list)-1]
	l.Key, l.At = b.keys[i], Cursor{}
	l.settlePriority()
	return list
}

// vouchers are those of the batch's new sitemaps and visits. Few batches have any.
func (b *batch) vouchers() []Voucher {
	var list []Voucher
	for i := range b.fresh {
		l := &b.fresh[i]
		for _, h := range l.Vouchers {
			list = append(list, Voucher{Key: l.Key, Host: h, Visit: max(1, l.Visit)})
		}
	}
	return list
}

// lastMod is the modification time that a sitemap gives for a link, or zero.
func (b *batch) lastMod(i int) (t time.Time) {
	if i >= len(b.found) {
		t = b.links[i-len(b.found)].LastMod
	}
	return t
}

func (b *batch) setState(i int, st linkState) {
	b.states[i] = st
	if st == linkDoubtful {
		b.doubtful++
	}
}

// collect copies the links that seem new, each once.
func (b *batch) collect() {
	for n := 2 * len(b.todo); len(b.table) < n; {
		b.table = slices.Grow(b.table[:0], 1<<bits.Len(uint(n)))[:1<<bits.Len(uint(n))]
		clear(b.table)
	}
	b.collectForeign()
	for _, i := range b.todo {
		st := b.states[i]
		if st != linkCandidate && st != linkVerified || !b.enter(b.keys[i]) {
			continue
		}
		b.fresh = b.appendLink(b.fresh, i)
		b.from = append(b.from, i)
	}
}

// collectForeign copies the links that are to be sent, each once per source: the owner of a URL records where it is
// named by the source of the link.
func (b *batch) collectForeign() {
	b.foreign = b.foreign[:0]
	type sent struct {
		key    weburl.Key
		source uint8
	}
	seen := map[sent]bool{}
	for _, i := range b.todo {
		if b.states[i] != linkForeign {
			continue
		}
		b.foreign = b.appendLink(b.foreign, i)
		last := len(b.foreign) - 1
		link := sent{b.keys[i], b.foreign[last].Source}
		if seen[link] {
			b.foreign = b.foreign[:last]
		}
		seen[link] = true
	}
}

// enter puts the key of the next fresh link into the table, unless it is there.
func (b *batch) enter(k weburl.Key) bool {
	at := b.slot(k)
	if b.table[at] != 0 {
		return false
	}
	b.table[at] = int32(len(b.fresh)) + 1
	return true
}

// slot is where the table has a key, or has room for it.
func (b *batch) slot(k weburl.Key) uint64 {
	mask := uint64(len(b.table) - 1)
	at := k.Lo & mask
	for b.table[at] != 0 && b.keys[b.from[b.table[at]-1]] != k {
		at = (at + 1) & mask
	}
	return at
}

// dropKnown removes the links from fresh that became known since they were
// collected, and those that Admit wants to be skipped.
func (b *batch) dropKnown() {
	n := 0
	for j := range b.fresh {
		if st := b.states[b.from[j]]; st != linkCandidate && st != linkVerified {
			continue
		}
		if l := &b.fresh[j]; l.Skip > 0 {
			b.addSkip(Skip{Partition: l.Key.Host.Partition(), Reason: l.Skip, Count: 1})
			continue
		}
		b.fresh[n], b.from[n] = b.fresh[j], b.from[j]
		n++
	}
	if n == len(b.fresh) {
		return
	}
	clear(b.fresh[n:])
	b.fresh, b.from = b.fresh[:n], b.from[:n]
	clear(b.table)
	for j := range b.from {
		b.table[b.slot(b.keys[b.from[j]])] = int32(j) + 1
	}
}

// questions puts the keys that the store must be asked about into ask, in order and
// each once.
func (b *batch) questions() {
	b.ask = b.ask[:0]
	for _, i := range b.todo {
		if b.states[i] == linkDoubtful {
			b.ask = append(b.ask, b.keys[i])
		}
	}
	slices.SortFunc(b.ask, weburl.Key.Compare)
	b.ask = slices.Compact(b.ask)
	b.seen = slices.Grow(b.seen[:0], len(b.ask))[:len(b.ask)]
}

// answer applies what the store said: links that it has not seen become linkVerified.
func (b *batch) answer() {
	for _, i := range b.todo {
		if b.states[i] != linkDoubtful {
			continue
		}
		at, _ := slices.BinarySearchFunc(b.ask, b.keys[i], weburl.Key.Compare)
		if !b.seen[at] {
			b.states[i] = linkVerified
		}
	}
	b.doubtful = 0
}
