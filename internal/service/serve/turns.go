package serve

import (
	lists "container/list"
	"context"
	"math"
	"sync"
	"time"
)

// turns bounds what is done at once, over all clients and for each of them. Clients that wait have their turns in
// rounds, one each, however many requests of theirs wait. So have the networks of a client, within its turns.
type turns struct {
	most    int        // turns at once, over all clients; zero means no bound
	each    int        // turns of one client at once
	within  int        // turns of one network of a client at once; zero means no bound
	waiting int        // requests of one client that may wait
	busy    func(bool) // if not nil, it is called when there is a first turn, and when there is none any more

	mu  sync.Mutex
	all turnsOf // guarded by mu
}

// turnsOf are the turns of all clients, of one client, or of a network of a client. They are guarded by the mutex of
// turns.
type turnsOf struct {
	in             *turnsOf // nil for all clients
	name           string
	taken, waiting int
	below          map[string]*turnsOf // those that have a turn or wait for one
	round          lists.List          // of *turnsOf: those below that wait and may have a turn
	place          *lists.Element      // in the round; nil if it is not in it
	requests       lists.List          // of *turn: those that wait, if there is nothing below
}

// turn is the turn of one request.
type turn struct {
	all   *turns
	of    *turnsOf
	come  chan struct{}  // closed when the turn has come, or when it ends before
	waits *lists.Element // guarded by all.mu; nil if the turn has come
	ended bool           // guarded by all.mu
}

// ask takes a turn as soon as there is one. The client has the names of its networks, such as those of clientOf. It
// returns nil if too many requests of the client wait. Otherwise end must be called.
func (t *turns) ask(client ...string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.all.below[client[0]]; of != nil && of.taken+of.waiting >= t.each+t.waiting {
		return nil
	}
	of := &t.all
	for _, name := range client {
		next := of.below[name]
		if next == nil {
			next = &turnsOf{in: of, name: name}
			if of.below == nil {
				of.below = map[string]*turnsOf{}
			}
			of.below[name] = next
		}
		of = next
	}
	one := &turn{all: t, of: of, come: make(chan struct{})}
	one.waits = of.requests.PushBack(one)
	t.changeLocked(of, 1, 0)
	t.giveLocked()
	return one
}

// end ends the turn, or the wait for it. It may be called again.
func (o *turn) end() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	switch {
	case o.ended:
		return
	case o.waits != nil:
		o.of.requests.Remove(o.waits)
		close(o.come)
		o.all.changeLocked(o.of, -1, 0)
	default:
		o.all.changeLocked(o.of, 0, -1)
	}
	o.ended = true
	o.all.giveLocked()
}

// hurry lets a turn that waits come before all others, within the bounds of its client.
func (o *turn) hurry() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.waits == nil || o.ended {
		return
	}
	o.of.requests.MoveToFront(o.waits)
	for of := o.of; of.in != nil; of = of.in {
		if of.place != nil {
			of.in.round.MoveToFront(of.place)
		}
	}
}

// isCrowded says whether many requests wait.
func (t *turns) isCrowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.waiting >= crowd
}

// giveLocked gives the turns that are free.
func (t *turns) giveLocked() {
	most := t.most
	if most == 0 {
		most = math.MaxInt
	}
	for t.all.taken < most && t.all.round.Len() > 0 {
		of := &t.all
		for of.round.Len() > 0 {
			next := of.round.Front()
			of.round.MoveToBack(next)
			of = next.Value.(*turnsOf)
		}
		one := of.requests.Remove(of.requests.Front()).(*turn)
		one.waits = nil
		close(one.come)
		t.changeLocked(of, -1, 1)
	}
}

// mayHaveMore says whether a client, or one of its networks, may have another turn.
func (t *turns) mayHaveMore(of *turnsOf) bool {
	if of.in == &t.all {
		return of.taken < t.each
	}
	return t.within == 0 || of.taken < t.within
}

// changeLocked counts requests of a network that wait and that have a turn. A client or a network is in a round if
// there is a request in it that waits and may have a turn.
func (t *turns) changeLocked(of *turnsOf, waiting, taken int) {
	for ; of != nil; of = of.in {
		before := of.waiting + of.taken
		of.waiting += waiting
		of.taken += taken
		if now := of.waiting + of.taken; of.in == nil {
			if t.busy != nil && (before > 0) != (now > 0) {
				t.busy(now > 0)
			}
			return
		}
		switch waits := of.round.Len()+of.requests.Len() > 0 && t.mayHaveMore(of); {
		case waits && of.place == nil:
			of.place = of.in.round.PushBack(of)
		case !waits && of.place != nil:
			of.in.round.Remove(of.place)
			of.place = nil
		}
		if of.taken == 0 && of.waiting == 0 {
			delete(of.in.below, of.name)
		}
	}
}

// enter waits for a turn. It returns false if too many requests of the client wait, or if the wait is longer than
// turnTime. Otherwise end must be called; it may be called again.
func (t *turns) enter(ctx context.Context, client ...string) (end func(), ok bool) {
	return t.ask(client...).await(ctx)
}

// await waits for the turn as enter does. The turn may be nil.
func (o *turn) await(ctx context.Context) (end func(), ok bool) {
	if o == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	select {
	case <-o.come:
		return o.end, true
	case <-ctx.Done():
		o.end()
		return nil, false
	}
}

// turnTime is how long a request waits for its turn.
const turnTime = 10 * time.Second
