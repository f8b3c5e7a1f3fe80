package frontier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// The methods of this file take links through the dedup and record those that are new, alone or together with the end
// of a lease.
//
// A link is known exactly when its record is committed: both happen with all shards of the record locked. The slow
// steps come first, without locks: asking the store about doubtful links, and waiting while it is busy. What they found
// is checked again under the locks.

func commitError(err error) error { return fmt.Errorf("commit: %w", err) }

// newBatch makes a batch of links, and computes the keys that are not given. It fails if the store has.
func (f *Frontier) newBatch(found []Found, links []Link) (*batch, error) {
	if err := f.failed(); err != nil {
		return nil, err
	}
	b, _ := f.batches.Get().(*batch)
	if b == nil {
		b = &batch{}
	}
	b.found, b.links = found, links
	var err error
	for i := 0; i < len(found) && err == nil; i++ {
		err = f.addKey(b, &found[i].URL, found[i].Key, &Link{})
	}
	for i := 0; i < len(links) && err == nil; i++ {
		err = f.addKey(b, &links[i].URL, links[i].Key, &links[i])
	}
	if err != nil {
		f.recycle(b)
		return nil, err
	}
	b.states = slices.Grow(b.states[:0], len(b.keys))[:len(b.keys)]
	clear(b.states)
	return b, nil
}

// addKey adds the next key to a batch. It is computed if k is zero, by what kind of link it is.
func (f *Frontier) addKey(b *batch, u *weburl.URL, k weburl.Key, kind *Link) error {
	if err := checkURL(u); err != nil {
		return err
	}
	if k == (weburl.Key{}) {
		switch {
		case kind.Check:
			k = CheckKey(f.hasher, *u)
		case kind.Sitemap:
			k = SitemapKey(f.hasher, *u)
		default:
			k = f.hasher.Key(*u)
		}
	}
	b.keys = append(b.keys, k)
	b.involve(f.shards.of(k.Host))
	return nil
}

// recycle makes a batch available again.
func (f *Frontier) recycle(b *batch) {
	b.reset()
	f.batches.Put(b)
}

// add records those of the links that are new, and returns how many they are. The marks say that links of their
// partitions were received.
func (f *Frontier) add(ctx context.Context, links []Link, marks ...Mark) (int, error) {
	b, err := f.newBatch(nil, links)
	if err != nil {
		return 0, err
	}
	defer f.recycle(b)
	for _, m := range marks {
		for _, k := range b.keys {
			if k.Host.Partition() != m.Partition {
				return 0, fmt.Errorf("one is of partition %d, not %d", k.Host.Partition(), m.Partition)
			}
		}
		b.involve(f.shards.ofPartition(m.Partition))
		b.marks = append(b.marks, m)
	}
	err = f.claimAll(ctx, b, nil)
	return b.added, err
}

// revisit queues links again that are finished, and records the facts with them.
func (f *Frontier) revisit(ctx context.Context, links []Link, facts []CrawlFact) error {
	b, err := f.newBatch(nil, links)
	if err != nil {
		return err
	}
	defer f.recycle(b)
	for i := range links {
		if links[i].Visit < 2 {
			return fmt.Errorf("%s: visit %d is not a later one", links[i].URL, links[i].Visit)
		}
		l := links[i]
		l.Key, l.Finish = b.keys[i], nil
		l.settlePriority()
		b.fresh = append(b.fresh, l)
	}
	if err := f.store.Ready(ctx); err != nil {
		return fmt.Errorf("wait for the store: %w", err)
	}
	for _, s := range b.shards {
		s.lock()
	}
	defer f.unlock(b.shards)
	for _, k := range b.keys {
		if !f.parts.of(k.Host).takesLinks() {
			return ErrPartitionClosed
		}
	}
	b.rec[0] = Record{Visits: b.fresh, Vouchers: b.vouchers(), Facts: facts}
	if _, err := f.store.Commit(b.rec[:]...); err != nil {
		return f.fail(commitError(err))
	}
	for i := range b.fresh {
		l := &b.fresh[i]
		f.shards.of(l.Key.Host).push(l)
	}
	return nil
}

// finish ends a lease, together with the links of its page: one record holds both.
// It is called with the lease's shard locked, which it unlocks. Most pages have
// links of their own shard only, and none that must be looked up: these need no
// other lock.
func (f *Frontier) finish(b *batch, s *shard) error {
	b.involve(s)
	if f.o.Names != nil && !b.origin.Unnamed {
		b.names = f.o.Names(b.origin.Source)
	}
	f.classify(b, s)
	fresh := slices.ContainsFunc(b.todo, func(i int32) bool { return b.states[i] != linkUnnamed })
	if len(b.shards) == 1 && b.doubtful == 0 && (f.o.Admit == nil || !fresh) {
		b.collect()
		err := f.record(b)
		s.effects.returning = true
		s.unlock()
		return err
	}
	s.unlock()
	return f.claimAll(f.ctx, b, s)
}

// claimAll finds out which links of a batch are new, and records them with all their shards locked, so that a link is
// known exactly when its record is committed. The links of the shard done, if it is not nil, are classified already.
func (f *Frontier) claimAll(ctx context.Context, b *batch, done *shard) (err error) {
	for _, s := range b.shards {
		if s != done {
			s.lock()
			f.classify(b, s)
			s.mu.Unlock()
		}
	}
	if len(b.todo) == 0 && b.end.lease == nil && len(b.marks) == 0 {
		return nil
	}
	f.narrow(b)
	defer func() {
		if err != nil {
			for _, s := range b.shards {
				s.lock()
				f.settleDoubts(b, s, false)
				s.mu.Unlock()
			}
		}
	}()
	for {
		if b.doubtful > 0 {
			if err := f.look(ctx, b); err != nil {
				return fmt.Errorf("look up links: %w", err)
			}
		}
		b.collect()
		if f.o.Admit != nil {
			for ; b.admitted < len(b.fresh); b.admitted++ {
				b.evidence = f.o.Admit(&b.fresh[b.admitted], b.evidence)
			}
		}
		if err := f.store.Ready(ctx); err != nil {
			return fmt.Errorf("wait for the store: %w", err)
		}
		for _, s := range b.shards {
			s.lock()
		}
		if f.recheck(b) {
			break
		}
		for _, s := range b.shards {
			s.mu.Unlock()
		}
	}
	err = f.record(b)
	for _, s := range b.shards {
		f.settleDoubts(b, s, true)
	}
	f.unlock(b.shards)
	return err
}

// classify sets the state of those links of the batch that belong to a shard, which is locked.
func (f *Frontier) classify(b *batch, s *shard) {
	n := &s.known
	only := len(b.shards) == 1
	if only {
		n.recent.Prefetch(b.keys)
	}
	names := f.wanted(b.names)
	for i, k := range b.keys {
		if !only && f.shards.of(k.Host) != s {
			continue
		}
		n.links++
		if f.parts.notOpen.Load() > 0 && !f.parts.of(k.Host).takesLinks() {
			b.todo = append(b.todo, int32(i))
			b.states[i] = linkForeign
			continue
		}
		if i >= len(b.found) {
			names = f.wanted(f.namesOf(b, i))
		}
		st := n.lookup(k, b.depth(i), names)
		switch {
		case st == linkKnown && (i < len(b.found) || b.lastMod(i).IsZero()):
			continue
		case st == linkKnown:
			st = linkUnnamed
		case st != linkUnnamed:
			n.filtered++
		}
		b.todo = append(b.todo, int32(i))
		b.setState(i, st)
	}
}

// narrow keeps in the batch only the shards that it must lock: those of links that
// may be new, and the lease's. Most links of most pages are known.
func (f *Frontier) narrow(b *batch) {
	b.shards = b.shards[:0]
	if b.end.lease != nil {
		b.involve(b.end.lease.s)
	}
	for _, i := range b.todo {
		b.involve(f.shards.of(b.keys[i].Host))
	}
	for i := range b.marks {
		b.involve(f.shards.ofPartition(b.marks[i].Partition))
	}
}

// namesOf is what a link says of its URL. A link to the page itself says nothing.
func (f *Frontier) namesOf(b *batch, i int) Names {
	switch n := i - len(b.found); {
	case b.keys[i] == b.self:
		return 0
	case n < 0:
		return b.names
	case f.o.Names == nil || b.links[n].Sitemap:
		return 0
	default:
		return f.o.Names(b.links[n].Source)
	}
}

// wanted returns those of the names that are recorded for a known URL.
func (f *Frontier) wanted(names Names) Names {
	if f.naming.Load() {
		return names & (Linked | Listed)
	}
	return names & Listed
}

// look asks the store about the doubtful links, in sorted batches. All calls together ask for at most Options.MaxVerify
// keys at once.
func (f *Frontier) look(ctx context.Context, b *batch) error {
	b.questions()
	for from := 0; from < len(b.ask); from += f.o.MaxVerify {
		to := min(len(b.ask), from+f.o.MaxVerify)
		if err := f.lookups.Acquire(ctx, int64(to-from)); err != nil {
			return err
		}
		err := f.store.Seen(ctx, b.ask[from:to], b.seen[from:to])
		f.lookups.Release(int64(to - from))
		if err != nil {
			return err
		}
	}
	b.answer()
	return nil
}

// recheck looks, with all shards locked, whether another call recorded any of
// the links meanwhile. It reports false if one must be looked up first.
func (f *Frontier) recheck(b *batch) bool {
	if !f.recheckPartitions(b) {
		return false
	}
	for _, i := range b.todo {
		k := b.keys[i]
		n := &f.shards.of(k.Host).known
		switch b.states[i] {
		case linkCandidate:
			b.setState(int(i), n.lookup(k, b.depth(int(i)), 0)) // another page may have had it too, a moment ago
		case linkVerified:
			if n.isClaimed(k) {
				b.states[i] = linkDoubtful // another call has recorded it: what follows treats it as known
			}
		}
	}
	if b.doubtful > 0 {
		return false
	}
	b.dropKnown()
	return true
}

// recheckPartitions looks whether partitions were opened or closed since the links were classified. It reports false if
// so: then the links must be collected again.
func (f *Frontier) recheckPartitions(b *batch) bool {
	same := true
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		n := &f.shards.of(k.Host).known
		switch takes := f.parts.of(k.Host).takesLinks(); {
		case st == linkForeign && takes:
			same = false
			b.setState(int(i), n.lookup(k, b.depth(int(i)), 0))
		case st != linkForeign && !takes:
			same = false
			if st == linkVerified || st == linkDoubtful {
				n.endDoubt(k)
			}
			b.states[i] = linkForeign
		}
	}
	return same
}

// settleDoubts ends the batch's lookups in one shard, which is locked. If the store
// was asked, links that are still doubtful are known.
func (f *Frontier) settleDoubts(b *batch, s *shard, asked bool) {
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		if st != linkDoubtful && st != linkVerified || f.shards.of(k.Host) != s {
			continue
		}
		s.known.settle(k, b.depth(int(i)), st, asked)
		b.states[i] = linkKnown
	}
}

// name adds to the record what the batch's links say of their URLs, as far as that is not
// on record in this generation. All shards are locked, so that each name is recorded by
// one call. After a commit that fails nothing is recorded any more.
//
// In generation 0 a new link carries its name in its Source, and links to known URLs are
// recorded only after a list, such as a sitemap, has added a URL. The first such URL is
// recorded together with FactListed.
func (f *Frontier) name(b *batch) {
	if f.o.Names == nil {
		return
	}
	for j := range b.fresh {
		l, names := &b.fresh[j], f.namesOf(b, int(b.from[j]))
		if names&^Linked != 0 && !f.naming.Swap(true) {
			b.facts = append(b.facts, CrawlFact{Partition: l.Key.Host.Partition(), Name: FactListed, Value: []byte{1}})
		}
		if f.o.Generation > 0 {
			b.addNamed(l.Key, names, l.LastMod, f.o.Generation)
		}
	}
	for _, i := range b.todo {
		k, names, at := b.keys[i], f.wanted(f.namesOf(b, int(i))), b.lastMod(int(i))
		missing := names
		switch st := b.states[i]; {
		case names == 0 || st == linkForeign:
			continue
		case st == linkCandidate || st == linkVerified:
			j := b.table[b.slot(k)] - 1
			if j < 0 || b.from[j] == i {
				continue // skipped, or recorded with its Source
			}
			missing &^= f.namesOf(b, int(b.from[j]))
		default:
			missing = f.shards.of(k.Host).known.name(k, names)
		}
		if missing != 0 || names&Listed != 0 && !at.IsZero() {
			b.addNamed(k, names, at, f.o.Generation)
		}
	}
}

// addNamed adds names of a URL to the batch's record.
func (b *batch) addNamed(k weburl.Key, names Names, at time.Time, generation uint32) {
	n := Named{Key: k, Linked: names&Linked != 0, Listed: names&Listed != 0, LastMod: at, Generation: generation}
	if n.Linked || n.Listed {
		b.named = append(b.named, n)
	}
}

// record commits the batch's record and lets its links and its lease's end take
// effect. All shards of the batch are locked.
func (f *Frontier) record(b *batch) error {
	if l := b.end.lease; l != nil && l.disowned {
		return ErrPartitionClosed
	}
	for i := range b.marks {
		if !f.parts.at(b.marks[i].Partition).takesLinks() {
			return ErrPartitionClosed
		}
	}
	f.name(b)
	rec := &b.rec[0]
	*rec = Record{Links: b.fresh, Sent: b.foreign, Marks: b.marks, Skips: b.skips, Vouchers: b.vouchers(),
		Named: b.named, Facts: b.facts}
	if b.end.lease != nil {
		b.end.conclude(b, rec)
	}
	rec.Evidence = b.evidence
	if rec.Finish != nil || len(rec.Links) > 0 || len(rec.Hosts) > 0 || len(rec.Sent) > 0 || len(rec.Marks) > 0 ||
		len(rec.Skips) > 0 || len(rec.Evidence) > 0 ||
		len(rec.Named) > 0 || len(rec.Facts) > 0 {
		at, err := f.store.Commit(b.rec[:]...)
		if err != nil {
			return f.fail(commitError(err))
		}
		if b.end.lease != nil {
			b.end.committed(at)
		}
	}
	for j := range b.fresh {
		l := &b.fresh[j]
		s := f.shards.of(l.Key.Host)
		s.known.claim(l.Key, f.namesOf(b, int(b.from[j])))
		if !l.Sitemap {
			s.count.added++
		}
		if l.Finish == nil {
			s.push(l)
		} else if !l.Sitemap {
			s.count.finished++
		}
	}
	b.added = len(b.fresh)
	for j := range b.visits {
		l := &b.visits[j]
		f.shards.of(l.Key.Host).push(l)
	}
	if b.end.lease != nil {
		b.end.finish()
	}
	return nil
}
