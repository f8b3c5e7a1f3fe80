package serve

import (
	lists "container/list"
	"context"
	"math"
	"sync"
	"time"
)

// turns bounds what is done at once, over all clients and for each of them. Clients that wait have their turns in
// rounds, one each, however many requests of theirs wait.
type turns[K comparable] struct {
	most    int // turns at once, over all clients; zero means no bound
	each    int // turns of one client at once
	waiting int // requests of one client that may wait

	mu      sync.Mutex
	taken   int               // guarded by mu
	clients map[K]*turnsOf[K] // guarded by mu; those that have a turn or wait for one
	round   lists.List        // guarded by mu; of *turnsOf: those that wait and have fewer turns than each
}

// turnsOf are the turns of one client. They are guarded by the mutex of turns.
type turnsOf[K comparable] struct {
	client  K
	taken   int
	waiting lists.List     // of *turn
	place   *lists.Element // in the round; nil if it is not in it
}

// turn is the turn of one request.
type turn[K comparable] struct {
	all   *turns[K]
	of    *turnsOf[K]
	come  chan struct{}  // closed when the turn has come, or when it ends before
	waits *lists.Element // guarded by all.mu; nil if the turn has come
	ended bool           // guarded by all.mu
}

// ask takes a turn as soon as there is one. It returns nil if too many requests of the client wait. Otherwise end must
// be called.
func (t *turns[K]) ask(client K) *turn[K] {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.clients[client]
	if of != nil && of.taken+of.waiting.Len() >= t.each+t.waiting {
		return nil
	}
	if of == nil {
		of = &turnsOf[K]{client: client}
		if t.clients == nil {
			t.clients = map[K]*turnsOf[K]{}
		}
		t.clients[client] = of
	}
	one := &turn[K]{all: t, of: of, come: make(chan struct{})}
	one.waits = of.waiting.PushBack(one)
	t.settleLocked(of)
	return one
}

// end ends the turn, or the wait for it. It may be called again.
func (o *turn[K]) end() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	switch {
	case o.ended:
		return
	case o.waits != nil:
		o.of.waiting.Remove(o.waits)
		close(o.come)
	default:
		o.of.taken--
		o.all.taken--
	}
	o.ended = true
	o.all.settleLocked(o.of)
}

// settleLocked is called after each change of a client: it gives the turns that are free.
func (t *turns[K]) settleLocked(changed *turnsOf[K]) {
	t.placeLocked(changed)
	most := t.most
	if most == 0 {
		most = math.MaxInt
	}
	for t.taken < most && t.round.Len() > 0 {
		next := t.round.Front().Value.(*turnsOf[K])
		one := next.waiting.Remove(next.waiting.Front()).(*turn[K])
		one.waits = nil
		close(one.come)
		next.taken++
		t.taken++
		t.round.MoveToBack(next.place)
		t.placeLocked(next)
	}
}

// placeLocked puts a client into the round if it waits and may have another turn. Otherwise it is taken out.
func (t *turns[K]) placeLocked(of *turnsOf[K]) {
	switch waits := of.waiting.Len() > 0 && of.taken < t.each; {
	case waits && of.place == nil:
		of.place = t.round.PushBack(of)
	case !waits && of.place != nil:
		t.round.Remove(of.place)
		of.place = nil
	}
	if of.taken == 0 && of.waiting.Len() == 0 {
		delete(t.clients, of.client)
	}
}

// enter waits for a turn. It returns false if too many requests of the client wait, or if the wait is longer than
// turnTime. Otherwise end must be called; it may be called again.
func (t *turns[K]) enter(ctx context.Context, client K) (end func(), ok bool) {
	one := t.ask(client)
	if one == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	select {
	case <-one.come:
		return one.end, true
	case <-ctx.Done():
		one.end()
		return nil, false
	}
}

// turnTime is how long a request waits for its turn.
const turnTime = 10 * time.Second
