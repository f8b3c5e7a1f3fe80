package frontier

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
)

// ready waits for the store, without a lock and for as long as the frontier lives.
func (f *Frontier) ready() error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	if f.ctx.Err() != nil {
		return ErrClosed
	}
	if err := f.store.Ready(f.ctx); err != nil {
		if f.ctx.Err() != nil {
			return ErrClosed
		}
		return fmt.Errorf("wait for the store: %w", err)
	}
	return nil
}

func commitError(err error) error { return fmt.Errorf("commit: %w", err) }

// add takes seeds through the dedup and records the new ones.
func (f *Frontier) add(ctx context.Context, links []Link) (int, error) {
	if err := f.failed.Load(); err != nil {
		return 0, *err
	}
	b, err := f.batch(links)
	if err != nil {
		return 0, err
	}
	defer f.recycle(b)
	if err := f.claimAll(ctx, b, nil); err != nil {
		return 0, err
	}
	return b.added, nil
}

// commit ends a lease, together with the links of its page: one record holds
// both. It is called with the lease's shard locked, which it unlocks. Most pages
// have links of their own shard only, and nothing that must be looked up; they
// are through without another lock.
func (f *Frontier) commit(b *batch, s *shard) error {
	b.involve(s)
	s.classify(b)
	if len(b.shards) == 1 && b.doubtful == 0 && (f.o.Admit == nil || len(b.todo) == 0) {
		b.collect()
		err := f.record(b)
		s.change.returning = true
		s.unlock()
		return err
	}
	s.unlock()
	return f.claimAll(f.ctx, b, s)
}

// claimAll sees a batch through: it finds out which links are new, and records
// them with all their shards locked, so that a link is known exactly when its
// record is on its way. The shard done is classified already.
func (f *Frontier) claimAll(ctx context.Context, b *batch, done *shard) (err error) {
	for _, s := range b.shards {
		if s != done {
			s.lock()
			s.classify(b)
			s.mu.Unlock()
		}
	}
	if len(b.todo) == 0 && b.end.lease == nil && len(b.marks) == 0 {
		return nil
	}
	b.narrow(f)
	defer func() {
		if err != nil {
			for _, s := range b.shards {
				s.lock()
				s.settleDoubts(b, false)
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
				f.o.Admit(&b.fresh[b.admitted])
			}
		}
		if err := f.store.Ready(ctx); err != nil {
			return fmt.Errorf("wait for the store: %w", err)
		}
		for _, s := range b.shards {
			s.lock()
		}
		if b.recheck(f) {
			break
		}
		for _, s := range b.shards {
			s.mu.Unlock()
		}
	}
	err = f.record(b)
	for _, s := range b.shards {
		s.settleDoubts(b, true)
	}
	f.unlock(b.shards)
	return err
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
		l := b.links[i]
		l.Key, l.At = b.keys[i], Cursor{}
		l.settlePriority()
		b.fresh = append(b.fresh, l)
		b.from = append(b.from, i)
	}
}

// collectForeign copies the links that are to be sent, each once.
func (b *batch) collectForeign() {
	b.foreign = b.foreign[:0]
	var seen map[Key]bool
	for _, i := range b.todo {
		if b.states[i] != linkForeign || seen[b.keys[i]] {
			continue
		}
		if seen == nil {
			seen = map[Key]bool{}
		}
		seen[b.keys[i]] = true
		l := b.links[i]
		l.Key, l.At = b.keys[i], Cursor{}
		l.settlePriority()
		b.foreign = append(b.foreign, l)
	}
}

// enter puts the key of the next fresh link into the table, unless it is there.
func (b *batch) enter(k Key) bool {
	mask := uint64(len(b.table) - 1)
	for at := k.Lo & mask; ; at = (at + 1) & mask {
		j := b.table[at]
		if j == 0 {
			b.table[at] = int32(len(b.fresh)) + 1
			return true
		}
		if b.keys[b.from[j-1]] == k {
			return false
		}
	}
}

// recheck looks, with all shards locked, whether somebody was faster with any of
// the links. It reports false if one must be looked up first.
func (b *batch) recheck(f *Frontier) bool {
	if !b.recheckPartitions(f) {
		return false
	}
	for _, i := range b.todo {
		k := b.keys[i]
		s := f.shardOf(k.Host)
		switch b.states[i] {
		case linkCandidate:
			switch {
			case s.recent.Has(k): // another page had it too, a moment ago
				s.count.hot++
				s.again(k, b.links[i].Depth)
				b.states[i] = linkKnown
			case s.suspects(k):
				s.suspect(b, int(i))
			}
		case linkVerified:
			if s.doubts[k].claimed || s.recent.Has(k) {
				b.states[i] = linkDoubtful
			}
		}
	}
	if b.doubtful > 0 {
		return false
	}
	n := 0
	for j := range b.fresh {
		if st := b.states[b.from[j]]; st == linkCandidate || st == linkVerified {
			b.fresh[n] = b.fresh[j]
			n++
		}
	}
	clear(b.fresh[n:])
	b.fresh = b.fresh[:n]
	return true
}

// recheckPartitions looks whether partitions were opened or closed since the links
// were classified. It reports false if so: then they must be collected again.
func (b *batch) recheckPartitions(f *Frontier) bool {
	same := true
	for _, i := range b.todo {
		k, st := b.keys[i], b.states[i]
		s := f.shardOf(k.Host)
		switch takes := f.parts[k.Host.Partition()].takesLinks(); {
		case st == linkForeign && takes:
			same = false
			if s.recent.Has(k) {
				b.states[i] = linkKnown
				break
			}
			b.states[i] = linkCandidate
			if s.suspects(k) {
				s.suspect(b, int(i))
			}
		case (st == linkCandidate || st == linkVerified) && !takes:
			same = false
			if st == linkVerified {
				s.endDoubt(k)
			}
			b.states[i] = linkForeign
		}
	}
	return same
}

// record commits the batch's record and lets its links and its lease's end take
// effect. All shards of the batch are locked.
func (f *Frontier) record(b *batch) error {
	if l := b.end.lease; l != nil && l.disowned {
		return ErrPartitionClosed
	}
	for i := range b.marks {
		if !f.parts[b.marks[i].Partition].takesLinks() {
			return ErrPartitionClosed
		}
	}
	rec := &b.rec[0]
	*rec = Record{Links: b.fresh, Sent: b.foreign, Marks: b.marks}
	if b.end.lease != nil {
		b.end.lease.s.conclude(b, rec)
	}
	if rec.Finish != nil || len(rec.Links) > 0 || len(rec.Hosts) > 0 || len(rec.Sent) > 0 || len(rec.Marks) > 0 {
		at, err := f.store.Commit(b.rec[:]...)
		if err != nil {
			return f.fail(commitError(err))
		}
		if b.end.lease != nil {
			b.end.lease.s.noteEvidence(at)
		}
	}
	for j := range b.fresh {
		l := &b.fresh[j]
		s := f.shardOf(l.Key.Host)
		s.claim(l.Key)
		s.count.added++
		if l.Finish == nil {
			s.push(l)
		} else {
			s.count.finished++
		}
	}
	b.added = len(b.fresh)
	if b.end.lease != nil {
		b.end.lease.s.finish(&b.end)
	}
	return nil
}
