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
// an account take turns among each other. A lease may be served for half an hour, so turns are not enough: if the gate
// is shared, an account has at most three times as many places as are then left free, and one in any case.
type Gate struct {
	// indexes is a semaphore. A public index that is asked about a domain holds weight 1, and a page that is tried
	// alone holds all of it. An index can take minutes. So the page waits for indexes first, and leases are served
	// meanwhile.
	indexes *semaphore.Weighted
	most    int
	shared  bool

	mu       sync.Mutex
	free     int                 // guarded by mu
	alone    []waiter            // guarded by mu; pages that are to be tried alone, which go before all leases
	turns    []*account          // guarded by mu; accounts with leases that wait; the first has the next turn
	accounts map[string]*account // guarded by mu; all that ever joined, by name
}

// account is guarded by the gate's lock.
type account struct {
	held  int      // leases that are served, but those of pages that are tried alone
	turns []*Party // crawls with leases that wait; the first has the next turn
}

// Party is one crawl at the gate.
type Party struct {
	gate    *Gate
	account *account
	queue   []waiter // guarded by the gate's lock; first in, first out
}

// waiter is a lease that waits. It is closed when the lease may be served.
type waiter chan struct{}

const allIndexes = math.MaxInt64

// New makes a gate for a number of leases. If it is shared, no account gets all places.
func New(most int, shared bool) *Gate {
	return &Gate{indexes: semaphore.NewWeighted(allIndexes), most: most, shared: shared, free: most,
		accounts: map[string]*account{}}
}

// Join makes a crawl of an account take part.
func (g *Gate) Join(name string) *Party {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.accounts[name]
	if a == nil {
		a = &account{}
		g.accounts[name] = a
	}
	return &Party{gate: g, account: a}
}

// Enter waits until a lease may be served. The caller then calls Leave, unless Enter returns an error. That is always
// the error of ctx.
func (p *Party) Enter(ctx context.Context, alone bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if alone {
		return p.enterAlone(ctx)
	}
	g := p.gate
	g.mu.Lock()
	if len(g.turns) == 0 && len(g.alone) == 0 && g.hasRoomLocked(p.account) {
		g.free--
		p.account.held++
		g.mu.Unlock()
		return nil
	}
	w := make(waiter)
	p.waitLocked(w)
	g.admitLocked() // those before it may have to wait for places of their account
	g.mu.Unlock()
	return p.await(ctx, w, false, &p.queue)
}

func (p *Party) enterAlone(ctx context.Context) error {
	g := p.gate
	if err := g.indexes.Acquire(ctx, allIndexes); err != nil {
		return err
	}
	w := make(waiter)
	g.mu.Lock()
	g.alone = append(g.alone, w)
	g.admitLocked()
	g.mu.Unlock()
	err := p.await(ctx, w, true, &g.alone)
	if err != nil {
		g.indexes.Release(allIndexes)
	}
	return err
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
		g.admitLocked()
	}
	return ctx.Err()
}

// waitLocked puts a waiter into its crawl's queue, and the crawl and its account among those that take turns.
func (p *Party) waitLocked(w waiter) {
	g, a := p.gate, p.account
	p.queue = append(p.queue, w)
	if slices.Contains(a.turns, p) {
		return // others of it wait, or gave up before their turn
	}
	if a.turns = append(a.turns, p); len(a.turns) == 1 {
		g.turns = append(g.turns, a)
	}
}

// Leave ends what Enter began.
func (p *Party) Leave(alone bool) {
	g := p.gate
	g.mu.Lock()
	p.releaseLocked(alone)
	g.mu.Unlock()
	if alone {
		g.indexes.Release(allIndexes)
	}
}

func (p *Party) releaseLocked(alone bool) {
	g := p.gate
	if alone {
		g.free = g.most
	} else {
		g.free++
		p.account.held--
	}
	g.admitLocked()
}

// hasRoomLocked reports whether an account may have one more place.
func (g *Gate) hasRoomLocked(a *account) bool {
	return g.free > 0 && (!g.shared || a.held == 0 || a.held/3 < g.free-1)
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
	for w := g.nextLocked(); w != nil; w = g.nextLocked() {
		close(w)
	}
}

// nextLocked gives a place to the waiter whose turn it is, of the first account that has room. Its crawl and its
// account go to the end of their turns, or out of them if nothing of them waits any more.
func (g *Gate) nextLocked() waiter {
	for i := 0; i < len(g.turns); {
		a := g.turns[i]
		if !g.hasRoomLocked(a) {
			i++
			continue
		}
		g.turns = slices.Delete(g.turns, i, i+1)
		w := a.next()
		if len(a.turns) > 0 {
			g.turns = append(g.turns, a)
		}
		if w != nil {
			g.free--
			a.held++
			return w
		}
	}
	return nil
}

// next takes the waiter whose turn it is, nil if none waits.
func (a *account) next() (w waiter) {
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
	return w
}

// EnterIndex waits until a public index may be asked. The caller then calls LeaveIndex, unless EnterIndex returns an
// error. That is always the error of ctx.
func (g *Gate) EnterIndex(ctx context.Context) error { return g.indexes.Acquire(ctx, 1) }

// LeaveIndex ends what EnterIndex began.
func (g *Gate) LeaveIndex() { g.indexes.Release(1) }
