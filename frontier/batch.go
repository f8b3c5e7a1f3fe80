package frontier

import (
	"context"
	"slices"

	"github.com/mapwright/mapwright/frontier/dedup"
)

// A batch is the links of one page, or some seeds, on their way through the
// dedup, and the lease that ends with them if there is one. It is used again.
type batch struct {
	links    []Link // the caller's
	keys     []Key
	states   []linkState
	shards   []*shard // that have to do with it, in order
	todo     []int32  // links that are not known, by index
	doubtful int      // how many of them the filter knows, and the store has to be asked about
	fresh    []Link   // those to be committed, each once
	from     []int32  // by fresh: index in links
	admitted int      // how many of fresh have been shown to Options.Admit
	end      ending
	fin      Finish
	added    int
	foreign  []Link // those to be sent, each once
	marks    []Mark

	rec   [1]Record
	ask   []Key
	seen  []bool
	table []int32 // hash table of fresh, by key: index plus 1
}

// linkState is how far a link has come.
type linkState uint8

const (
	linkKnown     linkState = iota // recorded before, by this page or by another
	linkCandidate                  // the filter does not know it: new, unless somebody is faster
	linkDoubtful                   // the filter knows it; the key is in its shard's doubts
	linkVerified                   // the store does not: new, unless somebody is faster
	linkForeign                    // its partition is not open here: to be sent
)

// batchMost is how many links go into one record.
const batchMost = 4096

// A doubt is a key that is being looked up in the store. Whoever records a link
// while others look it up leaves word here.
type doubt struct {
	refs    int
	claimed bool
}

// batch computes the keys of links.
func (f *Frontier) batch(links []Link) (*batch, error) {
	b, _ := f.batches.Get().(*batch)
	if b == nil {
		b = &batch{}
	}
	b.links = links
	for i := range links {
		l := &links[i]
		if err := l.check(); err != nil {
			f.recycle(b)
			return nil, err
		}
		k := l.Key
		if k == (Key{}) {
			k = f.hasher.Key(l.URL)
		}
		b.keys = append(b.keys, k)
		b.involve(f.shardOf(k.Host))
	}
	b.states = slices.Grow(b.states[:0], len(links))[:len(links)]
	clear(b.states)
	return b, nil
}

// recycle lets go of a batch.
func (f *Frontier) recycle(b *batch) {
	clear(b.fresh)
	b.rec[0] = Record{}
	b.links, b.end, b.fin = nil, ending{}, Finish{}
	b.keys, b.states, b.shards, b.todo, b.fresh = b.keys[:0], b.states[:0], b.shards[:0], b.todo[:0], b.fresh[:0]
	clear(b.foreign)
	b.foreign, b.marks = b.foreign[:0], b.marks[:0]
	b.from, b.table, b.ask = b.from[:0], b.table[:0], b.ask[:0]
	b.doubtful, b.admitted, b.added = 0, 0, 0
	f.batches.Put(b)
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

// narrow leaves the shards that have anything more to do with the batch: those of
// links that may be new, and the lease's. Most links of most pages are known.
func (b *batch) narrow(f *Frontier) {
	b.shards = b.shards[:0]
	if b.end.lease != nil {
		b.involve(b.end.lease.s)
	}
	for _, i := range b.todo {
		b.involve(f.shardOf(b.keys[i].Host))
	}
	for i := range b.marks {
		b.involve(f.shardOfPartition(b.marks[i].Partition))
	}
}

// classify looks for the batch's links in the shard's hot set and filter. The
// shard is locked.
func (s *shard) classify(b *batch) {
	only := len(b.shards) == 1
	if only {
		s.recent.Prefetch(b.keys)
	}
	for i := range b.links {
		k := b.keys[i]
		if !only && s.f.shardOf(k.Host) != s {
			continue
		}
		s.count.links++
		if s.f.notOpen.Load() > 0 && !s.f.parts[k.Host.Partition()].takesLinks() {
			b.todo = append(b.todo, int32(i))
			b.states[i] = linkForeign
			continue
		}
		if s.recent.Has(k) {
			s.count.hot++
			s.again(k, b.links[i].Depth)
			continue
		}
		s.count.filtered++
		b.todo = append(b.todo, int32(i))
		b.states[i] = linkCandidate
		if s.suspects(k) {
			s.suspect(b, i)
		}
	}
}

// suspects reports whether the filter knows a key.
func (s *shard) suspects(k Key) bool {
	fl := s.filters[k.Host.Partition()]
	return fl != nil && fl.Has(k)
}

// suspect notes that a link has to be looked up.
func (s *shard) suspect(b *batch, i int) {
	b.states[i] = linkDoubtful
	b.doubtful++
	s.count.doubtful++
	d := s.doubts[b.keys[i]]
	if d == nil {
		d = &doubt{}
		s.doubts[b.keys[i]] = d
	}
	d.refs++
}

// again notes that a known link was found, at a depth that may be its least.
func (s *shard) again(k Key, depth uint16) {
	if s.f.gate.on && int(depth) <= depthOf(uint8(s.f.gate.open.Load())) {
		s.higher.note(k, depth)
	}
}

// claim makes a key known. Whoever is looking it up must not record it too.
func (s *shard) claim(k Key) {
	s.recent.Add(k)
	p := k.Host.Partition()
	if s.filters[p] == nil {
		s.filters[p] = dedup.NewFilter(s.f.o.FilterCapacity/partitions, s.f.o.FilterFPRate)
	}
	s.filters[p].Add(k)
	if d := s.doubts[k]; d != nil {
		d.claimed = true
	}
}

// settleDoubts ends the batch's lookups in one shard, which is locked. If they
// were brought to an end, what is still doubtful is known.
func (s *shard) settleDoubts(b *batch, ended bool) {
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		if st != linkDoubtful && st != linkVerified || s.f.shardOf(k.Host) != s {
			continue
		}
		switch {
		case st == linkVerified:
			s.count.erred++
		case ended:
			s.recent.Add(k)
			s.again(k, b.links[i].Depth)
		}
		b.states[i] = linkKnown
		s.endDoubt(k)
	}
}

// endDoubt ends one lookup of a key.
func (s *shard) endDoubt(k Key) {
	if d := s.doubts[k]; d.refs > 1 {
		d.refs--
	} else {
		delete(s.doubts, k)
	}
}

// look asks the store about the doubtful links, in sorted batches and not more at
// once, over all calls, than Options.MaxVerify.
func (f *Frontier) look(ctx context.Context, b *batch) error {
	b.ask = b.ask[:0]
	for _, i := range b.todo {
		if b.states[i] == linkDoubtful {
			b.ask = append(b.ask, b.keys[i])
		}
	}
	slices.SortFunc(b.ask, Key.Compare)
	b.ask = slices.Compact(b.ask)
	b.seen = slices.Grow(b.seen[:0], len(b.ask))[:len(b.ask)]
	for from := 0; from < len(b.ask); from += f.o.MaxVerify {
		to := min(len(b.ask), from+f.o.MaxVerify)
		if err := f.verify.acquire(ctx, int64(to-from)); err != nil {
			return err
		}
		err := f.store.Seen(ctx, b.ask[from:to], b.seen[from:to])
		f.verify.release(int64(to - from))
		if err != nil {
			return err
		}
	}
	for _, i := range b.todo {
		if b.states[i] != linkDoubtful {
			continue
		}
		at, _ := slices.BinarySearchFunc(b.ask, b.keys[i], Key.Compare)
		if !b.seen[at] {
			b.states[i] = linkVerified
		}
	}
	b.doubtful = 0
	return nil
}
