// Package gate bounds what the crawls of a process do at the same time, and shares that number between accounts: how
// many leases they serve, how many pages they compute, and how many of them begin or end. It also lets one page of a
// crawl be tried with nothing else of the crawl being read.
//
// New makes a gate. Join makes a Party, by which one crawl takes part. Any number of goroutines may use a Party, and it
// need not be closed.
package gate

import (
	"context"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Gate lets up to a number of leases be served at the same time. While leases wait, accounts take turns, and the crawls
// of an account take turns among each other. A lease may be served for half an hour, so turns are not enough: a rule
// leaves places to other accounts.
type Gate struct {
	rule Rule

	mu       sync.Mutex
	free     int                 // guarded by mu; less than zero if a rule gave places that were not free
	turns    []*account          // guarded by mu; accounts with leases that may be served; the first has the next turn
	accounts map[string]*account // guarded by mu; all that ever joined, by name
}

// account is guarded by the gate's lock.
type account struct {
	held  int      // leases that are served
	turns []*Party // crawls with leases that may be served; the first has the next turn
}

// Party is one crawl at the gate. One of its pages may be tried alone: if the process ends then, nothing else of the
// crawl is the cause. Other crawls are served meanwhile, because a page may take long; after several unclean ends, a
// service lets crawls begin one at a time.
type Party struct {
	gate    *Gate
	account *account
	most    int // leases that the crawl may have served at once
	// indexes is a semaphore. A public index that is asked about a domain holds weight 1, and a page that is tried
	// alone holds all of it. An index can take minutes. So the page waits for indexes first, and leases are served
	// meanwhile.
	indexes *semaphore.Weighted

	// guarded by the gate's lock
	held  int      // leases that are served
	waits int64    // leases that had to wait, in all
	lone  bool     // the one that is served is tried alone
	queue []waiter // first in, first out
	alone []waiter // pages that are to be tried alone, which go before the queue
}

// waiter is a lease that waits. It is closed when the lease may be served.
type waiter chan struct{}

const allIndexes = math.MaxInt64

// Rule says whether an account that holds some places may have another one, when so many are free.
type Rule func(free, held int) bool

// All gives an account all places.
func All(free, _ int) bool { return free > 0 }

// Spare gives an account at most three times as many places as are then left free, and one in any case.
func Spare(free, held int) bool { return free > 0 && (held == 0 || held/3 < free-1) }

// OneEach gives an account all places, and each of the others one more, which need not be free.
func OneEach(free, held int) bool { return free > 0 || held == 0 }

// New makes a gate for a number of leases.
func New(most int, rule Rule) *Gate {
	return &Gate{rule: rule, free: most, accounts: map[string]*account{}}
}

// Join makes a crawl of an account take part, with up to a number of leases of its own.
func (g *Gate) Join(name string, most int) *Party {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.accounts[name]
	if a == nil {
		a = &account{}
		g.accounts[name] = a
	}
	return &Party{gate: g, account: a, most: most, indexes: semaphore.NewWeighted(allIndexes)}
}

// Enter waits until a lease may be served. The caller then calls Leave, unless Enter returns an error. That is always
// the error of ctx.
func (p *Party) Enter(ctx context.Context, alone bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !alone {
		return p.enter(ctx, false, &p.queue)
	}
	if err := p.indexes.Acquire(ctx, allIndexes); err != nil {
		return err
	}
	err := p.enter(ctx, true, &p.alone)
	if err != nil {
		p.indexes.Release(allIndexes)
	}
	return err
}

func (p *Party) enter(ctx context.Context, alone bool, queue *[]waiter) error {
	g := p.gate
	g.mu.Lock()
	if !alone && len(g.turns) == 0 && !p.lone && len(p.alone) == 0 && p.held < p.most && g.hasRoomLocked(p.account) {
		g.free--
		p.account.held++
		p.held++
		g.mu.Unlock()
		return nil
	}
	w := make(waiter)
	*queue = append(*queue, w)
	p.waits++
	p.lineUpLocked()
	g.admitLocked() // those before it may have to wait for places of their account
	g.mu.Unlock()
	return p.await(ctx, w, alone, queue)
}

// await waits for a waiter's turn. If ctx ends first, the waiter is taken out of its queue.
func (p *Party) await(ctx context.Context, w waiter, alone bool, queue *[]waiter) error {
	g := p.gate
	select {
	case <-w:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w: // its turn came at the same moment
		p.releaseLocked(alone)
	default:
		*queue = slices.DeleteFunc(*queue, func(other waiter) bool { return other == w })
		p.lineUpLocked() // leases may have waited for it
		g.admitLocked()
	}
	return ctx.Err()
}

// nextLocked is the queue whose first waiter may be served now; nil if none may. A page that is to be tried alone waits
// until nothing of its crawl is being served, and leases of the crawl wait for it: a lease that is being served waits
// for no other, so the page's turn comes.
func (p *Party) nextLocked() *[]waiter {
	switch {
	case p.lone, p.held >= p.most, len(p.alone) > 0 && p.held > 0:
		return nil
	case len(p.alone) > 0:
		return &p.alone
	case len(p.queue) > 0:
		return &p.queue
	}
	return nil
}

// lineUpLocked puts the crawl and its account among those that take turns, if a lease of it may be served.
func (p *Party) lineUpLocked() {
	a := p.account
	if p.nextLocked() == nil || slices.Contains(a.turns, p) {
		return
	}
	if a.turns = append(a.turns, p); len(a.turns) == 1 {
		p.gate.turns = append(p.gate.turns, a)
	}
}

// Reserve takes places from all crawls, or gives them back if n is negative. It does not wait: crawls that have those
// places keep them as long as they need.
func (g *Gate) Reserve(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free -= n
	g.admitLocked()
}

// Use is how many leases of the crawl are served, how many wait, and how many had to wait in all.
func (p *Party) Use() (held, waiting int, waits int64) {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.held, len(p.queue) + len(p.alone), p.waits
}

// Leave ends what Enter began.
func (p *Party) Leave(alone bool) {
	p.gate.mu.Lock()
	p.releaseLocked(alone)
	p.gate.mu.Unlock()
	if alone {
		p.indexes.Release(allIndexes)
	}
}

func (p *Party) releaseLocked(alone bool) {
	p.gate.free++
	p.account.held--
	p.held--
	if alone {
		p.lone = false
	}
	p.lineUpLocked()
	p.gate.admitLocked()
}

// hasRoomLocked reports whether an account may have one more place.
func (g *Gate) hasRoomLocked(a *account) bool { return g.rule(g.free, a.held) }

// admitLocked admits those whose turn it is, as long as there is room for one of their account.
func (g *Gate) admitLocked() {
	for i := 0; i < len(g.turns); {
		a := g.turns[i]
		if !g.hasRoomLocked(a) {
			i++
			continue
		}
		g.turns = slices.Delete(g.turns, i, i+1)
		if a.admitLocked() {
			g.free--
		}
		if len(a.turns) > 0 {
			g.turns = append(g.turns, a)
		}
	}
}

// admitLocked admits the waiter whose turn it is, and reports whether there was one. Its crawl goes to the end of the
// turns, or out of them if nothing else of it may be served now.
func (a *account) admitLocked() bool {
	for len(a.turns) > 0 {
		p := a.turns[0]
		a.turns = a.turns[1:]
		queue := p.nextLocked()
		if queue == nil {
			continue // those that waited gave up
		}
		close((*queue)[0])
		*queue = (*queue)[1:]
		a.held++
		p.held++
		p.lone = queue == &p.alone
		if p.nextLocked() != nil {
			a.turns = append(a.turns, p)
		}
		return true
	}
	return false
}

// EnterIndex waits until a public index may be asked. The caller then calls LeaveIndex, unless EnterIndex returns an
// error. That is always the error of ctx.
func (p *Party) EnterIndex(ctx context.Context) error { return p.indexes.Acquire(ctx, 1) }

// LeaveIndex ends what EnterIndex began.
func (p *Party) LeaveIndex() { p.indexes.Release(1) }
