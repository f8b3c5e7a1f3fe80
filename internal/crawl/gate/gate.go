// Package gate bounds how many leases the crawls of a process serve at the same time, and shares that number between
// accounts. It also lets one page be tried with nothing else being read.
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

// Gate lets up to a number of leases be served at the same time, or one page with nothing else being read. If the
// process ends while a page is alone, that page is the cause. While leases wait, accounts take turns, and the crawls of
// an account take turns among each other.
type Gate struct {
	// indexes is a semaphore. A public index that is asked about a domain holds weight 1, and a page that is tried
	// alone holds all of it. An index can take minutes. So the page waits for indexes first, and leases are served
	// meanwhile.
	indexes *semaphore.Weighted
	most    int

	mu       sync.Mutex
	free     int                 // guarded by mu
	alone    []waiter            // guarded by mu; pages that are to be tried alone, which go before all leases
	turns    []*account          // guarded by mu; accounts with leases that wait; the first has the next turn
	accounts map[string]*account // guarded by mu; those in turns, by name
}

// account has the crawls of one account whose leases wait. It is guarded by the gate's lock.
type account struct {
	name  string
	turns []*Party // with leases that wait; the first has the next turn
}

// Party is one crawl at the gate.
type Party struct {
	gate    *Gate
	account string
	queue   []waiter // guarded by the gate's lock; first in, first out
}

// waiter is a lease that waits. It is closed when the lease may be served.
type waiter chan struct{}

const allIndexes = math.MaxInt64

// New makes a gate for a number of leases.
func New(most int) *Gate {
	return &Gate{indexes: semaphore.NewWeighted(allIndexes), most: most, free: most, accounts: map[string]*account{}}
}

// Join makes a crawl of an account take part.
func (g *Gate) Join(account string) *Party { return &Party{gate: g, account: account} }

// Enter waits until a lease may be served. The caller then calls Leave, unless Enter returns an error. That is always
// the error of ctx.
func (p *Party) Enter(ctx context.Context, alone bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if alone {
		return p.gate.enterAlone(ctx)
	}
	g := p.gate
	g.mu.Lock()
	if g.free > 0 && len(g.turns) == 0 && len(g.alone) == 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	w := make(waiter)
	p.waitLocked(w)
	g.mu.Unlock()
	return g.await(ctx, w, false, &p.queue)
}

func (g *Gate) enterAlone(ctx context.Context) error {
	if err := g.indexes.Acquire(ctx, allIndexes); err != nil {
		return err
	}
	w := make(waiter)
	g.mu.Lock()
	g.alone = append(g.alone, w)
	g.admitLocked()
	g.mu.Unlock()
	err := g.await(ctx, w, true, &g.alone)
	if err != nil {
		g.indexes.Release(allIndexes)
	}
	return err
}

// await waits for a waiter's turn. If ctx ends first, the waiter is taken out of its queue.
func (g *Gate) await(ctx context.Context, w waiter, alone bool, queue *[]waiter) error {
	select {
	case <-w:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w: // its turn came at the same moment
		g.releaseLocked(alone)
	default:
		*queue = slices.DeleteFunc(*queue, func(other waiter) bool { return other == w })
		g.admitLocked()
	}
	return ctx.Err()
}

// waitLocked puts a waiter into its crawl's queue, and the crawl and its account among those that take turns.
func (p *Party) waitLocked(w waiter) {
	g := p.gate
	p.queue = append(p.queue, w)
	if len(p.queue) > 1 {
		return
	}
	a := g.accounts[p.account]
	if a == nil {
		a = &account{name: p.account}
		g.accounts[p.account] = a
		g.turns = append(g.turns, a)
	}
	if slices.Contains(a.turns, p) {
		return // its earlier waiters gave up, and it still stands in the turns
	}
	a.turns = append(a.turns, p)
}

// Leave ends what Enter began.
func (p *Party) Leave(alone bool) {
	g := p.gate
	g.mu.Lock()
	g.releaseLocked(alone)
	g.mu.Unlock()
	if alone {
		g.indexes.Release(allIndexes)
	}
}

func (g *Gate) releaseLocked(alone bool) {
	if alone {
		g.free = g.most
	} else {
		g.free++
	}
	g.admitLocked()
}

// admitLocked admits those whose turn it is, as long as there is room. A page that is to be tried alone waits until
// nothing is being served, and leases wait for it: a lease that is being served waits for no other, so the page's turn
// comes.
func (g *Gate) admitLocked() {
	if len(g.alone) > 0 {
		if g.free == g.most {
			g.free = 0
			close(g.alone[0])
			g.alone = g.alone[1:]
		}
		return
	}
	for g.free > 0 {
		w := g.nextLocked()
		if w == nil {
			return
		}
		g.free--
		close(w)
	}
}

// nextLocked takes the waiter whose turn it is. Its crawl and its account go to the end of their turns, or out of them
// if nothing of them waits any more.
func (g *Gate) nextLocked() waiter {
	for len(g.turns) > 0 {
		a := g.turns[0]
		g.turns = g.turns[1:]
		var w waiter
		for w == nil && len(a.turns) > 0 {
			p := a.turns[0]
			a.turns = a.turns[1:]
			if len(p.queue) == 0 {
				continue
			}
			w, p.queue = p.queue[0], p.queue[1:]
			if len(p.queue) > 0 {
				a.turns = append(a.turns, p)
			}
		}
		if len(a.turns) > 0 {
			g.turns = append(g.turns, a)
		} else {
			delete(g.accounts, a.name)
		}
		if w != nil {
			return w
		}
	}
	return nil
}

// EnterIndex waits until a public index may be asked. The caller then calls LeaveIndex, unless EnterIndex returns an
// error. That is always the error of ctx.
func (g *Gate) EnterIndex(ctx context.Context) error { return g.indexes.Acquire(ctx, 1) }

// LeaveIndex ends what EnterIndex began.
func (g *Gate) LeaveIndex() { g.indexes.Release(1) }
