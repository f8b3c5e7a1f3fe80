package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

const (
	simURLs       = 240
	simPartitions = 12
	fetchTimeout  = 20 * time.Second
)

// A simulation is a crawl of a small web by machines that are paused, killed and cut off
// from the engine. Everything runs in one bubble of synctest. A URL is a number; its
// partition is the remainder by simPartitions.
type simulation struct {
	*testing.T
	engine    *Engine
	crawl     cluster.Crawl
	links     [simURLs][]int
	rollbacks bool // the engine loses data

	mu     sync.Mutex
	starts [simPartitions]simStarts // guarded by mu
	ended  int                      // guarded by mu; machines that found the crawl complete and decided it
	lost   int                      // guarded by mu; sessions that were over before the crawl
}

// simStarts are the requests to a partition.
type simStarts struct {
	epoch uint64    // of the last one
	until time.Time // when all have ended
}

// simRow is a row of the log.
type simRow struct{ Found, Done []int }

// TestSimulation has every URL recorded once, whatever happens to machines. An owner
// starts no request after the first one of the next owner, which starts none before
// those of the owner before have ended.
func TestSimulation(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t,
				func(t *testing.T) { simulate(t, seed, false) })
		})
	}
}

// TestSimulationRollback has the engine lose acknowledged data again and again.
func TestSimulationRollback(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t,
				func(t *testing.T) { simulate(t, seed, true) })
		})
	}
}

func simulate(t *testing.T, seed uint64, rollbacks bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{T: t, engine: New(), crawl: cluster.Crawl{ID: cluster.NewID(), Name: "simulated"},
		rollbacks: rollbacks}
	for u := range s.links {
		// Each page links to a next one, so there are times with little to do, and to
		// one more, mostly of its own partition, as pages of a site do.
		other := (u + simPartitions*(1+rng.IntN(5))) % simURLs
		if rng.IntN(8) == 0 {
			other = rng.IntN(simURLs)
		}
		s.links[u] = []int{(u + 1) % simURLs, other}
	}
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(seed, 2)) // guarded by mu
	var away time.Time                       // guarded by mu; the engine cannot be reached until then
	s.engine.Fault = func(string) Fault {
		mu.Lock()
		defer mu.Unlock()
		if faults.IntN(4000) == 0 {
			away = time.Now().Add(30 * time.Second)
		}
		if time.Now().Before(away) {
			return Away
		}
		if faults.IntN(20) == 0 {
			return Fault(1 + faults.IntN(3))
		}
		return None
	}
	if err := s.engine.Create(t.Context(), s.crawl, "start"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg, background sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			m := &simMachine{simulation: s, id: cluster.NewID(), rng: rand.New(rand.NewPCG(seed, uint64(10+i)))}
			m.run(ctx)
		})
	}
	if rollbacks {
		background.Go(func() {
			for range 6 {
				restore := s.engine.Save()
				sleep(ctx, time.Duration(1+rng.IntN(5))*time.Second)
				if ctx.Err() != nil {
					return
				}
				restore()
				sleep(ctx, time.Duration(5+rng.IntN(20))*time.Second)
			}
		})
	}
	wg.Wait()
	stop()
	background.Wait()
	s.check()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reachable are the URLs of the web, which begins with 0.
func (s *simulation) reachable() map[int]bool {
	seen, queue := map[int]bool{0: true}, []int{0}
	for len(queue) > 0 {
		for _, to := range s.links[queue[0]] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	return seen
}

// done are the URLs that the log has as done. Each may be there once.
func (s *simulation) done() map[int]bool {
	c := s.engine.crawls[s.crawl.ID]
	done := map[int]bool{}
	for p := range c.logs {
		at := cluster.Place{}
		for _, row := range c.logs[p] {
			if !row.Follows(at) {
				s.Errorf("partition %d: row %d does not follow", p, row.Seq)
			}
			at = row.Place
			var r simRow
			if err := json.Unmarshal(row.Body, &r); err != nil {
				s.Error(err)
			}
			for _, u := range r.Done {
				if done[u] {
					s.Errorf("URL %d is done twice", u)
				}
				done[u] = true
			}
		}
	}
	return done
}

func (s *simulation) check() {
	if done, want := s.done(), s.reachable(); !maps.Equal(done, want) {
		s.Errorf("%d URLs are done, want %d", len(done), len(want))
	}
	if s.ended != 1 && !s.rollbacks {
		s.Errorf("%d machines have decided the end", s.ended)
	}
	s.Logf("%d sessions were over before the crawl, %v of virtual time", s.lost,
		time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// A simMachine joins as one session after another.
type simMachine struct {
	*simulation
	id  cluster.MachineID
	rng *rand.Rand

	session cluster.Session
	lease   *cluster.SessionLease
	hold    cluster.Holdings
	beatAt  time.Time
	parts   map[uint8]*simPart
	start   bool // it holds the token
}

// simPart is what the owner knows of a partition: the log, replayed.
type simPart struct {
	known, pending map[int]bool
	flights        map[int]time.Time // when each request ends
	notBefore      time.Time
	closing        bool
}

// run works until the crawl has ended. A session that is over is followed by another.
func (m *simMachine) run(ctx context.Context) {
	for {
		began := time.Now()
		m.session = cluster.Session{Crawl: m.crawl.ID, ID: cluster.NewID(), Machine: m.id}
		m.lease = cluster.NewSessionLease(func() time.Duration { return time.Since(began) })
		m.hold = cluster.Holdings{Parts: map[uint8]cluster.Held{}}
		m.parts, m.start, m.beatAt = map[uint8]*simPart{}, false, time.Time{}
		err := m.repeat(func() error { return m.engine.Join(ctx, m.session) })
		for err == nil {
			err = m.step(ctx)
		}
		if errors.Is(err, errSimEnd) {
			return
		}
		if !errors.Is(err, cluster.ErrFenced) && !errors.Is(err, cluster.ErrRolledBack) &&
			!errors.Is(err, errSimKilled) {
			m.Errorf("machine: %v", err)
			return
		}
		m.mu.Lock()
		m.lost++
		m.mu.Unlock()
		sleep(ctx, time.Duration(m.rng.IntN(5000))*time.Millisecond)
	}
}

var (
	errSimEnd    = errors.New("the crawl has ended")
	errSimKilled = errors.New("killed")
)

func (m *simMachine) repeat(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, cluster.ErrAway) && !errors.Is(err, cluster.ErrUnknown) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (m *simMachine) step(ctx context.Context) error {
	time.Sleep(100 * time.Millisecond)
	if m.rng.IntN(600) == 0 {
		return errSimKilled
	}
	if time.Since(m.beatAt) >= cluster.BeatEvery {
		if err := m.beat(ctx); err != nil {
			return err
		}
	}
	m.pause()
	if err := m.commit(ctx); err != nil {
		return err
	}
	m.pause()
	m.fetch()
	return nil
}

// pause sometimes stops the machine, which goes on later and does not know it.
func (m *simMachine) pause() {
	if m.rng.IntN(500) == 0 {
		time.Sleep(time.Duration(1+m.rng.IntN(40)) * time.Second)
	}
}

func (m *simMachine) beat(ctx context.Context) error {
	var snap *cluster.Snapshot
	m.beatAt = time.Now()
	err := m.lease.Beat(ctx, func(ctx context.Context) (err error) {
		snap, err = m.engine.Beat(ctx, m.session, cluster.Known{})
		return err
	})
	if errors.Is(err, cluster.ErrAway) {
		return nil
	}
	if err == nil {
		err = m.hold.Check(snap, m.session.ID)
	}
	if err != nil {
		return err
	}
	if snap.Crawl.State != cluster.Running {
		return errSimEnd
	}
	if snap.Complete() {
		return m.finish(ctx)
	}
	if len(snap.Tokens) > 0 && !m.start {
		err := m.repeat(func() (err error) {
			m.start, err = m.engine.Change(ctx, m.session, cluster.TakeToken{Name: "start"})
			return err
		})
		if err != nil {
			return err
		}
	}
	moves := cluster.NextMoves(snap, m.session.ID)
	for n, p := range m.parts {
		p.closing = slices.Contains(moves.Close, n)
	}
	return m.claim(ctx, moves.Claim)
}

// finish decides that the crawl is complete. That must be so.
func (m *simMachine) finish(ctx context.Context) error {
	won := false
	err := m.repeat(func() (err error) {
		won, err = m.engine.Change(ctx, m.session, cluster.SetState{From: cluster.Running, To: cluster.Finished,
			Reason: "complete", If: cluster.IfComplete})
		return err
	})
	if won {
		m.mu.Lock()
		m.ended++
		m.mu.Unlock()
	}
	return err
}

func (m *simMachine) claim(ctx context.Context, parts []uint8) error {
	if len(parts) == 0 {
		return nil
	}
	var claimed []cluster.Claimed
	err := m.repeat(func() (err error) {
		claimed, err = m.engine.Claim(ctx, m.session, parts)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range claimed {
		p := &simPart{known: map[int]bool{}, pending: map[int]bool{}, flights: map[int]time.Time{}}
		if !c.LastBeat.IsZero() {
			p.notBefore = c.LastBeat.Add(cluster.StartWithin + fetchTimeout)
		}
		for at := (cluster.Place{}); at != c.Head; {
			var rows []cluster.Row
			err := m.repeat(func() (err error) {
				rows, err = m.engine.Read(ctx, m.crawl.ID, c.Partition, at, 1000)
				return err
			})
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return cluster.ErrRolledBack // since the claim
			}
			for _, row := range rows {
				var r simRow
				if err := json.Unmarshal(row.Body, &r); err != nil {
					return err
				}
				p.apply(r)
				at = row.Place
			}
		}
		m.parts[c.Partition], m.hold.Parts[c.Partition] = p, cluster.Held{Epoch: c.Epoch, Head: c.Head}
	}
	return nil
}

func (p *simPart) apply(r simRow) {
	for _, u := range r.Found {
		p.known[u], p.pending[u] = true, true
	}
	for _, u := range r.Done {
		delete(p.pending, u)
		delete(p.flights, u)
	}
}

// fetch starts requests while the lease is valid.
func (m *simMachine) fetch() {
	for n, p := range m.parts {
		for _, u := range slices.Sorted(maps.Keys(p.pending)) {
			_, out := p.flights[u]
			if out || len(p.flights) >= 2 || p.closing || time.Now().Before(p.notBefore) || !m.lease.Valid() {
				continue
			}
			takes := fetchTimeout
			if m.rng.IntN(5) > 0 {
				takes = time.Duration(m.rng.Int64N(int64(3 * time.Second)))
			}
			p.flights[u] = time.Now().Add(takes)
			m.started(n, p.flights[u])
		}
	}
}

// started compares a request with those of other owners. After a rollback two sessions
// may have a partition until the next beat of the first, so nothing is known then.
func (m *simMachine) started(n uint8, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, epoch := &m.starts[n], m.hold.Parts[n].Epoch
	switch {
	case m.rollbacks:
	case epoch < s.epoch:
		m.Errorf("partition %d: a request in epoch %d after one in epoch %d", n, epoch, s.epoch)
	case epoch > s.epoch && time.Now().Before(s.until):
		m.Errorf("partition %d: a request in epoch %d, %v before one in epoch %d has ended", n, epoch,
			time.Until(s.until), s.epoch)
	}
	s.epoch = epoch
	if until.After(s.until) {
		s.until = until
	}
}

// commit records the pages that have arrived with their links, receives hand-overs, and
// closes partitions.
func (m *simMachine) commit(ctx context.Context) error {
	rows := map[uint8]*simRow{}
	sent := map[uint8][]int{}
	row := func(n uint8) *simRow {
		if rows[n] == nil {
			rows[n] = &simRow{}
		}
		return rows[n]
	}
	add := func(u int) {
		n := uint8(u % simPartitions)
		p := m.parts[n]
		if p == nil {
			sent[n] = append(sent[n], u)
		} else if !p.known[u] && !slices.Contains(row(n).Found, u) {
			row(n).Found = append(row(n).Found, u)
		}
	}
	b := &cluster.Batch{Number: m.hold.Batch + 1}
	var list []cluster.Handover
	err := m.repeat(func() (err error) {
		if m.rng.IntN(20) > 0 {
			return nil // hand-overs are received late
		}
		list, err = m.engine.Inbox(ctx, m.session, nil, 1000)
		return err
	})
	if err != nil {
		return err
	}
	for _, h := range list {
		if m.parts[h.To] == nil {
			return cluster.ErrRolledBack // it owns what it did not claim
		}
		var urls []int
		if err := json.Unmarshal(h.Body, &urls); err != nil {
			return err
		}
		row(h.To)
		for _, u := range urls {
			add(u)
		}
		b.Received = append(b.Received, frontier.Mark{Partition: h.To, Session: h.From, Batch: h.Batch})
	}
	for n, p := range m.parts {
		for u, at := range p.flights {
			if !time.Now().Before(at) {
				row(n).Done = append(row(n).Done, u)
				for _, to := range m.links[u] {
					add(to)
				}
			}
		}
		if p.closing && len(p.flights) == 0 {
			row(n)
		}
	}
	if m.start {
		add(0)
		b.Release = []string{"start"}
	}
	if len(rows) == 0 && len(sent) == 0 && len(b.Release) == 0 {
		return nil
	}
	return m.send(ctx, b, rows, sent)
}

// send commits what commit has put together, and applies it.
func (m *simMachine) send(ctx context.Context, b *cluster.Batch, rows map[uint8]*simRow, sent map[uint8][]int) error {
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		body, err := json.Marshal(rows[n])
		if err != nil {
			return err
		}
		p, held := m.parts[n], m.hold.Parts[n]
		live := len(p.pending) + len(rows[n].Found) - len(rows[n].Done)
		b.Writes = append(b.Writes, cluster.Write{
			Partition: n, Epoch: held.Epoch, After: held.Head, Body: body, Close: p.closing && len(p.flights) == 0,
			Status: cluster.PartStatus{Idle: live == 0},
		})
	}
	for _, n := range slices.Sorted(maps.Keys(sent)) {
		body, err := json.Marshal(sent[n])
		if err != nil {
			return err
		}
		b.Sent = append(b.Sent, cluster.Sent{To: n, Body: body})
	}
	m.pause()
	if err := m.repeat(func() error { return m.engine.Commit(ctx, m.session, b) }); err != nil {
		return err
	}
	m.hold.Batch = b.Number
	if len(b.Release) > 0 {
		m.start = false
	}
	for i := range b.Writes {
		w := &b.Writes[i]
		m.parts[w.Partition].apply(*rows[w.Partition])
		if m.hold.Parts[w.Partition] = (cluster.Held{Epoch: w.Epoch, Head: w.Head()}); w.Close {
			delete(m.parts, w.Partition)
			delete(m.hold.Parts, w.Partition)
		}
	}
	return nil
}
