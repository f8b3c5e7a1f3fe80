package frontier

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mapwright/mapwright/frontier/internal/limit"
)

// A recorder takes links through the dedup and records those that are new, alone or
// together with the end of a lease.
//
// A link is known exactly when its record is committed: both happen with all shards
// of the record locked. What takes long, to ask the store about doubtful links and to
// wait while it is busy, happens before that without locks, and is checked again
// under the locks.
type recorder struct {
	store     Store
	hasher    Hasher
	admit     func(*Link, []Evidence) []Evidence // Options.Admit
	maxVerify int

	life     *lifetime
	shards   *shardSet
	parts    *partitionSet
	unlocker *unlocker
	lookups  *limit.Lookups
	batches  sync.Pool // of *batch
}

func (r *recorder) init(f *Frontier) {
	r.store, r.hasher, r.admit, r.maxVerify = f.store, f.hasher, f.o.Admit, f.o.MaxVerify
	r.life, r.shards, r.parts, r.unlocker = &f.life, &f.shards, &f.parts, &f.unlocker
	r.lookups = limit.NewLookups(f.o.MaxVerify)
}

func commitError(err error) error { return fmt.Errorf("commit: %w", err) }

// batch makes a batch of links, and computes the keys that are not given.
func (r *recorder) batch(found []Found, links []Link) (*batch, error) {
	b, _ := r.batches.Get().(*batch)
	if b == nil {
		b = &batch{}
	}
	b.found, b.links = found, links
	for i := range found {
		l := &found[i]
		if err := checkURL(&l.URL); err != nil {
			r.recycle(b)
			return nil, err
		}
		k := l.Key
		if k == (Key{}) {
			k = r.hasher.Key(l.URL)
		}
		b.keys = append(b.keys, k)
		b.involve(r.shards.of(k.Host))
	}
	for i := range links {
		l := &links[i]
		if err := checkURL(&l.URL); err != nil {
			r.recycle(b)
			return nil, err
		}
		k := l.Key
		switch {
		case k != (Key{}):
		case l.Sitemap:
			k = SitemapKey(r.hasher, l.URL)
		default:
			k = r.hasher.Key(l.URL)
		}
		b.keys = append(b.keys, k)
		b.involve(r.shards.of(k.Host))
	}
	b.states = slices.Grow(b.states[:0], len(b.keys))[:len(b.keys)]
	clear(b.states)
	return b, nil
}

// recycle makes a batch available again.
func (r *recorder) recycle(b *batch) {
	b.reset()
	r.batches.Put(b)
}

// add records those of the links that are new, and returns how many they are.
func (r *recorder) add(ctx context.Context, links []Link) (int, error) {
	if err := r.life.failed(); err != nil {
		return 0, err
	}
	b, err := r.batch(nil, links)
	if err != nil {
		return 0, err
	}
	defer r.recycle(b)
	if err := r.claimAll(ctx, b, nil); err != nil {
		return 0, err
	}
	return b.added, nil
}

// receive is Frontier.Receive.
func (r *recorder) receive(ctx context.Context, links []Link, m Mark) (int, error) {
	if err := r.life.failed(); err != nil {
		return 0, err
	}
	b, err := r.batch(nil, links)
	if err != nil {
		return 0, err
	}
	defer r.recycle(b)
	for _, k := range b.keys {
		if k.Host.Partition() != m.Partition {
			return 0, fmt.Errorf("one is of partition %d, not %d", k.Host.Partition(), m.Partition)
		}
	}
	b.involve(r.shards.ofPartition(m.Partition))
	b.marks = append(b.marks, m)
	if err := r.claimAll(ctx, b, nil); err != nil {
		return 0, err
	}
	return b.added, nil
}

// revisit queues links again that are finished, and records the facts with them.
func (r *recorder) revisit(ctx context.Context, links []Link, facts []CrawlFact) error {
	if err := r.life.failed(); err != nil {
		return err
	}
	b, err := r.batch(nil, links)
	if err != nil {
		return err
	}
	defer r.recycle(b)
	for i := range links {
		if links[i].Visit < 2 {
			return fmt.Errorf("%s: visit %d is not a later one", links[i].URL, links[i].Visit)
		}
		l := links[i]
		l.Key, l.Finish = b.keys[i], nil
		l.settlePriority()
		b.fresh = append(b.fresh, l)
	}
	if err := r.store.Ready(ctx); err != nil {
		return fmt.Errorf("wait for the store: %w", err)
	}
	for _, s := range b.shards {
		s.lock()
	}
	defer r.unlocker.unlock(b.shards)
	for _, k := range b.keys {
		if !r.parts.of(k.Host).takesLinks() {
			return ErrPartitionClosed
		}
	}
	b.rec[0] = Record{Visits: b.fresh, Vouchers: b.vouchers(), Facts: facts}
	if _, err := r.store.Commit(b.rec[:]...); err != nil {
		return r.life.fail(commitError(err))
	}
	for i := range b.fresh {
		l := &b.fresh[i]
		r.shards.of(l.Key.Host).push(l)
	}
	return nil
}

// finish ends a lease, together with the links of its page: one record holds both.
// It is called with the lease's shard locked, which it unlocks. Most pages have
// links of their own shard only, and none that must be looked up: these need no
// other lock.
func (r *recorder) finish(b *batch, s *shard) error {
	b.involve(s)
	for i := range b.named {
		b.involve(r.shards.of(b.named[i].Key.Host))
	}
	r.classify(b, s)
	if len(b.shards) == 1 && b.doubtful == 0 && (r.admit == nil || len(b.todo) == 0) {
		b.collect()
		err := r.record(b)
		s.effects.returning = true
		s.unlock()
		return err
	}
	s.unlock()
	return r.claimAll(r.life.ctx, b, s)
}

// claimAll takes a batch to its end: it finds out which links are new, and records
// them with all their shards locked, so that a link is known exactly when its
// record is on its way. The shard done is classified already.
func (r *recorder) claimAll(ctx context.Context, b *batch, done *shard) (err error) {
	for _, s := range b.shards {
		if s != done {
			s.lock()
			r.classify(b, s)
			s.mu.Unlock()
		}
	}
	if len(b.todo) == 0 && b.end.lease == nil && len(b.marks) == 0 {
		return nil
	}
	r.narrow(b)
	defer func() {
		if err != nil {
			for _, s := range b.shards {
				s.lock()
				r.settleDoubts(b, s, false)
				s.mu.Unlock()
			}
		}
	}()
	for {
		if b.doubtful > 0 {
			if err := r.look(ctx, b); err != nil {
				return fmt.Errorf("look up links: %w", err)
			}
		}
		b.collect()
		if r.admit != nil {
			for ; b.admitted < len(b.fresh); b.admitted++ {
				b.evidence = r.admit(&b.fresh[b.admitted], b.evidence)
			}
		}
		if err := r.store.Ready(ctx); err != nil {
			return fmt.Errorf("wait for the store: %w", err)
		}
		for _, s := range b.shards {
			s.lock()
		}
		if r.recheck(b) {
			break
		}
		for _, s := range b.shards {
			s.mu.Unlock()
		}
	}
	err = r.record(b)
	for _, s := range b.shards {
		r.settleDoubts(b, s, true)
	}
	r.unlocker.unlock(b.shards)
	return err
}

// classify finds out how far the batch's links of a shard, which is locked, have
// come.
func (r *recorder) classify(b *batch, s *shard) {
	n := &s.known
	only := len(b.shards) == 1
	if only {
		n.recent.Prefetch(b.keys)
	}
	for i, k := range b.keys {
		if !only && r.shards.of(k.Host) != s {
			continue
		}
		n.links++
		if r.parts.notOpen.Load() > 0 && !r.parts.of(k.Host).takesLinks() {
			b.todo = append(b.todo, int32(i))
			b.states[i] = linkForeign
			continue
		}
		st := n.lookup(k, b.depth(int(i)))
		if st == linkKnown {
			continue
		}
		n.filtered++
		b.todo = append(b.todo, int32(i))
		b.setState(i, st)
	}
}

// narrow leaves the shards that have anything more to do with the batch: those of
// links that may be new, and the lease's. Most links of most pages are known.
func (r *recorder) narrow(b *batch) {
	b.shards = b.shards[:0]
	if b.end.lease != nil {
		b.involve(b.end.lease.s)
	}
	for _, i := range b.todo {
		b.involve(r.shards.of(b.keys[i].Host))
	}
	for i := range b.marks {
		b.involve(r.shards.ofPartition(b.marks[i].Partition))
	}
	for i := range b.named {
		b.involve(r.shards.of(b.named[i].Key.Host))
	}
}

// look asks the store about the doubtful links, in sorted batches and not more at
// once, over all calls, than Options.MaxVerify.
func (r *recorder) look(ctx context.Context, b *batch) error {
	b.questions()
	for from := 0; from < len(b.ask); from += r.maxVerify {
		to := min(len(b.ask), from+r.maxVerify)
		if err := r.lookups.Acquire(ctx, int64(to-from)); err != nil {
			return err
		}
		err := r.store.Seen(ctx, b.ask[from:to], b.seen[from:to])
		r.lookups.Release(int64(to - from))
		if err != nil {
			return err
		}
	}
	b.answer()
	return nil
}

// recheck looks, with all shards locked, whether another call recorded any of
// the links meanwhile. It reports false if one must be looked up first.
func (r *recorder) recheck(b *batch) bool {
	if !r.recheckPartitions(b) {
		return false
	}
	for _, i := range b.todo {
		k := b.keys[i]
		n := &r.shards.of(k.Host).known
		switch b.states[i] {
		case linkCandidate:
			b.setState(int(i), n.lookup(k, b.depth(int(i)))) // another page may have had it too, a moment ago
		case linkVerified:
			if n.isClaimed(k) {
				b.states[i] = linkDoubtful // that is, known: nothing is left to ask the store
			}
		}
	}
	if b.doubtful > 0 {
		return false
	}
	b.dropKnown()
	return true
}

// recheckPartitions looks whether partitions were opened or closed since the links
// were classified. It reports false if so: then they must be collected again.
func (r *recorder) recheckPartitions(b *batch) bool {
	same := true
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		n := &r.shards.of(k.Host).known
		switch takes := r.parts.of(k.Host).takesLinks(); {
		case st == linkForeign && takes:
			same = false
			b.setState(int(i), n.lookup(k, b.depth(int(i))))
		case (st == linkCandidate || st == linkVerified) && !takes:
			same = false
			if st == linkVerified {
				n.endDoubt(k)
			}
			b.states[i] = linkForeign
		}
	}
	return same
}

// settleDoubts ends the batch's lookups in one shard, which is locked. If the store
// was asked, links that are still doubtful are known.
func (r *recorder) settleDoubts(b *batch, s *shard, asked bool) {
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		if st != linkDoubtful && st != linkVerified || r.shards.of(k.Host) != s {
			continue
		}
		s.known.settle(k, b.depth(int(i)), st, asked)
		b.states[i] = linkKnown
	}
}

// record commits the batch's record and lets its links and its lease's end take
// effect. All shards of the batch are locked.
func (r *recorder) record(b *batch) error {
	if l := b.end.lease; l != nil && l.disowned {
		return ErrPartitionClosed
	}
	for i := range b.marks {
		if !r.parts.at(b.marks[i].Partition).takesLinks() {
			return ErrPartitionClosed
		}
	}
	if len(b.named) > 0 {
		b.named = slices.DeleteFunc(b.named, func(n Named) bool { return !r.parts.of(n.Key.Host).takesLinks() })
	}
	rec := &b.rec[0]
	*rec = Record{Links: b.fresh, Sent: b.foreign, Marks: b.marks, Skips: b.skips, Vouchers: b.vouchers(), Named: b.named, Facts: b.facts}
	if b.end.lease != nil {
		b.end.conclude(b, rec)
	}
	rec.Evidence = b.evidence
	if rec.Finish != nil || len(rec.Links) > 0 || len(rec.Hosts) > 0 || len(rec.Sent) > 0 || len(rec.Marks) > 0 || len(rec.Skips) > 0 || len(rec.Evidence) > 0 ||
		len(rec.Named) > 0 || len(rec.Facts) > 0 {
		at, err := r.store.Commit(b.rec[:]...)
		if err != nil {
			return r.life.fail(commitError(err))
		}
		if b.end.lease != nil {
			b.end.committed(at)
		}
	}
	for j := range b.fresh {
		l := &b.fresh[j]
		s := r.shards.of(l.Key.Host)
		s.known.claim(l.Key)
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
		r.shards.of(l.Key.Host).push(l)
	}
	if b.end.lease != nil {
		b.end.finish()
	}
	return nil
}
