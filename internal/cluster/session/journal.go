package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/state"
)

// A Journal is the [state.Journal] of a session's view: the logs of the partitions that
// the session owns. What a batch holds for partitions of others is handed over to them.
type Journal struct {
	calls   *calls
	session cluster.Session
	run     uint64 // of the crawl
	codec   *cluster.RowCodec
	fail    func(error) // ends the session
	ctx     context.Context

	// committing is held from before a batch is put together until the engine has answered: a session has one call of
	// Commit or Change at a time, and a batch is sent again until its outcome is known. It is a channel of one place,
	// because its holder may wait long.
	committing chan struct{}

	mu        sync.Mutex
	batch     uint64                            // guarded by mu; the last one committed
	owned     map[uint8]*ownedPart              // guarded by mu
	seen      [cluster.Partitions]cluster.Place // guarded by mu; up to where the view has each log
	received  []frontier.Mark                   // guarded by mu; marks that are being recorded or not yet committed
	released  []string                          // guarded by mu; tokens that the next batch releases
	extended  []string                          // guarded by mu; scope extensions that go with the next batch
	stats     state.JournalStats                // guarded by mu
	distance  distance                          // guarded by mu
	sent      uint64                            // guarded by mu; hand-overs in all batches
	takeovers uint64                            // guarded by mu; partitions claimed whose last owner did not close them
	reading   map[uint8]bool                    // guarded by mu; partitions whose logs are being read
	bytesRead uint64                            // guarded by mu; of all rows that were read
	counters  func(p uint8) state.Counters      // guarded by mu; of the view, as far as it is applied; nil before Work
	pages     func() int64                      // guarded by mu; fetched by this session; nil before Work
}

var _ state.SharedJournal = (*Journal)(nil)

// ownedPart is a partition that the session owns.
type ownedPart struct {
	epoch   uint64
	head    cluster.Place
	granted uint64
	status  cluster.PartStatus  // as last committed
	closing *cluster.PartStatus // goes with the row that closes it
}

func newJournal(ctx context.Context, c *calls, s cluster.Session, run uint64, fail func(error)) (*Journal, error) {
	codec, err := cluster.NewRowCodec()
	if err != nil {
		return nil, err
	}
	return &Journal{
		ctx: ctx, calls: c, session: s, run: run, codec: codec, fail: fail, committing: make(chan struct{}, 1),
		owned: map[uint8]*ownedPart{}, reading: map[uint8]bool{},
	}, nil
}

// View implements [state.SharedJournal].
func (j *Journal) View() (crawl [16]byte, run uint64) { return j.session.Crawl, j.run }

// countBy says where the counters of partitions and the number of pages come from.
func (j *Journal) countBy(counters func(p uint8) state.Counters, pages func() int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counters, j.pages = counters, pages
}

// claimed notes that the session owns a partition. Takeover means that its owner before did not close it.
func (j *Journal) claimed(c *cluster.Claimed, takeover bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owned[c.Partition] == nil && takeover {
		j.takeovers++
	}
	j.owned[c.Partition] = &ownedPart{epoch: c.Epoch, head: c.Head, granted: c.Granted, status: c.Status}
}

// holdings is what the session knows to be durable.
func (j *Journal) holdings() cluster.Holdings {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := cluster.Holdings{Batch: j.batch, Parts: make(map[uint8]cluster.Held, len(j.owned))}
	for p, own := range j.owned {
		h.Parts[p] = cluster.Held{Epoch: own.epoch, Head: own.head}
	}
	return h
}

// owns returns the partitions that the session owns, in order.
func (j *Journal) owns() []uint8 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.owned))
}

// Append implements [state.Journal]. It waits while the engine is away.
func (j *Journal) Append(_ context.Context, b *state.Batch) error {
	j.committing <- struct{}{}
	defer func() { <-j.committing }()
	batch, err := j.gather(b)
	if err == nil {
		err = j.commit(batch)
	}
	return err
}

// gather makes a batch of the engine out of one of the store.
func (j *Journal) gather(b *state.Batch) (*cluster.Batch, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	batch := j.nextLocked()
	rows, sent, closed := map[uint8][]state.Part{}, map[uint8][]state.Part{}, map[uint8]bool{}
	for part := range b.Parts() {
		p := part.Partition
		switch {
		case part.IsSent():
			sent[p] = append(sent[p], part)
			continue
		case j.owned[p] == nil || closed[p]:
			// Another machine owns the partition. It gets answers for its origins. All else was recorded after the
			// partition was closed here, and its owner finds it out again.
			if handed, err := state.ReadHanded(part); err != nil {
				return nil, err
			} else if len(handed.Origins) > 0 {
				sent[p] = append(sent[p], part)
			}
			continue
		case part.Closes():
			closed[p] = true
		case len(j.received) > 0:
			handed, err := state.ReadHanded(part)
			if err != nil {
				return nil, err
			}
			batch.Received = append(batch.Received, handed.Marks...)
		}
		rows[p] = append(rows[p], part)
	}
	for _, p := range slices.Sorted(maps.Keys(rows)) {
		own := j.owned[p]
		// What the batch leaves to do is not known here: later records may be on their way.
		status := cluster.PartStatus{Busy: 1, Counted: own.status.Counted, Counts: own.status.Counts}
		if j.counters != nil {
			setCounters(&status, j.counters(p))
		}
		if closed[p] && own.closing != nil {
			status = *own.closing
		}
		batch.Writes = append(batch.Writes, cluster.Write{
			Partition: p, Epoch: own.epoch, After: own.head, Granted: own.granted,
			Body: j.codec.Encode(own.head, rows[p]), Status: status, Close: closed[p],
		})
	}
	for _, p := range slices.Sorted(maps.Keys(sent)) {
		batch.Sent = append(batch.Sent, cluster.Sent{To: p, Body: j.codec.Encode(cluster.Place{}, sent[p])})
	}
	return batch, nil
}

// setCounters puts the counters of a partition into its status.
func setCounters(s *cluster.PartStatus, c state.Counters) {
	s.Counted, s.Counts = c.Counted, c.Append(nil)
}

// nextLocked begins the next batch with what waits for one.
func (j *Journal) nextLocked() *cluster.Batch {
	return &cluster.Batch{Number: j.batch + 1, Release: j.released, Scope: j.extended}
}

// commit sends a batch until the engine has answered. The caller holds committing.
func (j *Journal) commit(b *cluster.Batch) error {
	began := time.Now()
	err := j.calls.repeat(j.ctx, func(ctx context.Context) error { return j.calls.engine.Commit(ctx, j.session, b) })
	if err != nil {
		j.fail(err)
		return fmt.Errorf("commit batch %d: %w", b.Number, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.batch, j.released, j.extended = b.Number, j.released[len(b.Release):], j.extended[len(b.Scope):]
	for i := range b.Writes {
		w := &b.Writes[i]
		own := j.owned[w.Partition]
		own.head, own.status = w.Head(), w.Status
		j.seen[w.Partition] = own.head
		j.stats.Written += int64(len(w.Body))
		if w.Close {
			delete(j.owned, w.Partition)
		}
	}
	j.received = slices.DeleteFunc(j.received, func(m frontier.Mark) bool { return slices.Contains(b.Received, m) })
	j.sent += uint64(len(b.Sent))
	j.stats.Syncs++
	took := time.Since(began)
	j.distance.add(took)
	if j.stats.SyncMean == 0 {
		j.stats.SyncMean = took
	}
	j.stats.SyncMean += (took - j.stats.SyncMean) / 8
	return nil
}

// expect notes a mark that is about to be recorded.
func (j *Journal) expect(m frontier.Mark) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.received = append(j.received, m)
}

// forget undoes expect.
func (j *Journal) forget(m frontier.Mark) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.received = slices.DeleteFunc(j.received, func(have frontier.Mark) bool { return have == m })
}

// underway are the marks that are not committed yet.
func (j *Journal) underway() []frontier.Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.received)
}

// release makes the next batch release a token.
func (j *Journal) release(token string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.released = append(j.released, token)
}

// Extend makes the next batch commit a scope extension. So it is committed before or with what the caller records next.
func (j *Journal) Extend(target string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.extended = append(j.extended, target)
}

// setClosing sets the status that is committed with the row that closes a partition.
func (j *Journal) setClosing(p uint8, s cluster.PartStatus) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if own := j.owned[p]; own != nil {
		own.closing = &s
	}
}

// report commits the statuses of partitions, without rows, if one of them has changed. sample is called while nothing
// can be committed. It returns the statuses after all that was committed, or false if they are not known now. report
// returns whether nothing is in flight.
func (j *Journal) report(sample func() (map[uint8]cluster.PartStatus, bool)) (idle bool, _ error) {
	j.committing <- struct{}{}
	defer func() { <-j.committing }()
	list, ok := sample()
	if !ok {
		return false, nil
	}
	j.mu.Lock()
	batch := j.nextLocked()
	idle = true
	for _, p := range slices.Sorted(maps.Keys(list)) {
		own := j.owned[p]
		if own == nil {
			continue
		}
		status := list[p]
		idle = idle && status.Busy == 0
		if !sameStatus(&own.status, &status) {
			batch.Writes = append(batch.Writes, cluster.Write{Partition: p, Epoch: own.epoch, After: own.head,
				Granted: own.granted, Status: status})
		}
	}
	j.mu.Unlock()
	if len(batch.Writes)+len(batch.Release)+len(batch.Scope) == 0 {
		return idle, nil
	}
	return idle, j.commit(batch)
}

func sameStatus(a, b *cluster.PartStatus) bool {
	return a.Idle == b.Idle && a.Busy == b.Busy && a.Least == b.Least && a.Counted == b.Counted &&
		slices.Equal(a.Counts, b.Counts)
}

// grant changes how many pages an owned partition may have. It reports false if the engine refuses. Only the end of the
// session ends the wait for the engine: the next batch names what was granted, so that must be known.
func (j *Journal) grant(p uint8, to func(granted uint64) uint64) (granted uint64, ok bool, err error) {
	j.committing <- struct{}{}
	defer func() { <-j.committing }()
	j.mu.Lock()
	own := j.owned[p]
	if own == nil {
		j.mu.Unlock()
		return 0, false, nil
	}
	g := cluster.Grant{Partition: p, Epoch: own.epoch, From: own.granted, To: to(own.granted)}
	j.mu.Unlock()
	if g.From == g.To {
		return g.To, true, nil
	}
	if ok, err = j.send(g); err != nil || !ok {
		return g.From, false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	own.granted = g.To
	return g.To, true, nil
}

// change makes a change of the crawl. It waits as grant does: the session that has decided the end of the crawl must
// know it.
func (j *Journal) change(c cluster.Change) (done bool, err error) {
	j.committing <- struct{}{}
	defer func() { <-j.committing }()
	done, err = j.send(c)
	if s, ok := c.(cluster.SetState); ok && s.Anew && done && err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, own := range j.owned {
			own.granted = 0
		}
	}
	return done, err
}

// send makes a change. The caller holds committing.
func (j *Journal) send(c cluster.Change) (done bool, err error) {
	return ask(j.ctx, j.calls, func(ctx context.Context) (bool,
		error) {
		return j.calls.engine.Change(ctx, j.session, c)
	})
}

// readBytes is how much of a log is read at once.
const readBytes = 4 << 20

// errPartitions is returned for a replay of more or less than one partition.
var errPartitions = errors.New("a log of the engine is replayed by partition")

// Replay implements [state.Journal] for one partition at a time. It goes on after what it
// has replayed before and what was appended: the positions are those of the store, and
// are not needed. After an error the session is over.
func (j *Journal) Replay(ctx context.Context, after state.Positions,
	fn func(frontier.Position, []byte) error) (err error) {
	if len(after) != 1 {
		return errPartitions
	}
	defer func() {
		if err != nil {
			j.fail(err)
		}
	}()
	for p := range after {
		return j.replay(ctx, p, fn)
	}
	return nil
}

func (j *Journal) replay(ctx context.Context, p uint8, fn func(frontier.Position, []byte) error) error {
	j.mu.Lock()
	at := j.seen[p]
	var head cluster.Place
	own := j.owned[p]
	if own != nil {
		head = own.head
	}
	j.reading[p] = true
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.reading, p)
	}()
	var rec []byte
	for own == nil || at != head {
		rows, err := ask(ctx, j.calls, func(ctx context.Context) ([]cluster.Row, error) {
			return j.calls.engine.Read(ctx, j.session.Crawl, p, at, readBytes)
		})
		switch {
		case err != nil:
			return err
		case len(rows) == 0 && own != nil:
			return fmt.Errorf("partition %d ends with row %d, and had row %d: %w", p, at.Seq, head.Seq,
				cluster.ErrRolledBack)
		case len(rows) == 0:
			return nil
		}
		size := 0
		for i := range rows {
			row := &rows[i]
			size += len(row.Body)
			if !row.Follows(at) {
				return fmt.Errorf("partition %d, row %d: %w", p, row.Seq, cluster.ErrRolledBack)
			}
			parts, err := j.codec.Decode(p, at, row.Body)
			if err != nil {
				return err
			}
			for _, part := range parts {
				rec = state.JoinParts(rec[:0], part)
				if err := fn(part.At, rec); err != nil {
					return err
				}
			}
			at = row.Place
		}
		j.mu.Lock()
		j.seen[p] = at
		j.bytesRead += uint64(size)
		j.mu.Unlock()
	}
	return nil
}

// Truncate implements [state.Journal]. The engine keeps everything.
func (j *Journal) Truncate(context.Context, state.Positions) error { return nil }

// Stats implements [state.Journal].
func (j *Journal) Stats() state.JournalStats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// Close implements [state.Journal]. The session ends by [Session.Leave].
func (j *Journal) Close() error { return nil }
