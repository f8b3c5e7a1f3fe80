package fetch

import (
	"context"
	"sync"
)

// watches tell calls when the contexts of their callers end. Calls under way with
// the same context, as all of a crawl have, share one watch: an AfterFunc for
// each would cost more than the rest of a call's start.
type watches struct {
	mu sync.Mutex
	of map[<-chan struct{}]*watch // guarded by mu; those with calls, by Done
}

// A watch is the list of calls that end with one context.
type watch struct {
	first *call       // guarded by watches.mu
	stop  func() bool // forgets the context
}

// watchLinks is a call's place in the list.
type watchLinks struct {
	on         *watch // guarded by watches.mu; nil if on none
	prev, next *call  // guarded by watches.mu
}

// add lets a call end with its caller's context.
func (w *watches) add(k *call) {
	ctx := k.parent
	if ctx.Done() == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	on := w.of[ctx.Done()]
	if on == nil {
		on = new(watch)
		on.stop = context.AfterFunc(ctx, func() { w.ended(on, ctx) })
		if w.of == nil {
			w.of = make(map[<-chan struct{}]*watch)
		}
		w.of[ctx.Done()] = on
	}
	k.watch = watchLinks{on: on, next: on.first}
	if on.first != nil {
		on.first.watch.prev = k
	}
	on.first = k
}

// remove forgets a call. The end of its context may still cancel the call afterwards.
func (w *watches) remove(k *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on, prev, next := k.watch.on, k.watch.prev, k.watch.next
	if on == nil {
		return
	}
	k.watch = watchLinks{}
	if next != nil {
		next.watch.prev = prev
	}
	if prev != nil {
		prev.watch.next = next
		return
	}
	on.first = next
	if next == nil {
		on.stop()
		delete(w.of, k.parent.Done())
	}
}

// ended cancels the calls of a watch whose context has ended.
func (w *watches) ended(on *watch, ctx context.Context) {
	w.mu.Lock()
	var all []*call
	for k := on.first; k != nil; {
		next := k.watch.next
		k.watch = watchLinks{}
		all = append(all, k)
		k = next
	}
	if on.first != nil {
		on.first = nil
		delete(w.of, ctx.Done())
	}
	w.mu.Unlock()
	for _, k := range all {
		k.cancel(context.Cause(ctx))
	}
}
