package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
)

// A countedContext counts who waits for its end.
type countedContext struct {
	context.Context
	done    chan struct{}
	waiting *int
}

func (c countedContext) Done() <-chan struct{} { return c.done }

func (c countedContext) AfterFunc(func()) func() bool {
	*c.waiting++
	return func() bool { *c.waiting--; return true }
}

// Calls of one context wait for its end together, and nobody does when they are over.
func TestCallsShareAWatch(t *testing.T) {
	c, err := New(Options{Resolver: always("8.8.8.8")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waiting := 0
	ctx := countedContext{t.Context(), make(chan struct{}), &waiting}
	for range 3 {
		a, b := c.newCall(ctx, &Request{}), c.newCall(ctx, &Request{})
		if waiting != 1 {
			t.Errorf("%d wait for the end of a context that two calls have", waiting)
		}
		a.end()
		b.end()
		if waiting != 0 {
			t.Errorf("%d wait for the end of a context that no call has", waiting)
		}
	}
}

func TestCallsEndWithTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{Resolver: always("8.8.8.8")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		why := errors.New("enough")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithCancelCause(t.Context())
		type name struct{}
		same := context.WithValue(ctx, name{}, "x") // ends when ctx does
		other, cancelOther := context.WithCancelCause(t.Context())
		defer cancelOther(nil)
		var ended, under, others []*call
		for i := range 30 {
			k := c.newCall([]context.Context{ctx, same, other}[i%3], &Request{})
			switch {
			case i%3 == 2:
				others = append(others, k)
			case r.IntN(2) == 0:
				ended = append(ended, k)
			default:
				under = append(under, k)
			}
		}
		if n := len(c.watches.of); n != 2 {
			t.Errorf("%d watches of two contexts", n)
		}
		r.Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] })
		for _, k := range ended {
			k.end()
		}
		cancel(why)
		synctest.Wait()
		for _, k := range under {
			if k.cause() != why {
				t.Errorf("a call under way has cause %v", k.cause())
			}
		}
		for _, k := range ended {
			if k.cause() == why {
				t.Error("a call that had ended was cancelled")
			}
		}
		for _, k := range others {
			if k.cause() != nil {
				t.Errorf("a call of another context has cause %v", k.cause())
			}
		}
		late := c.newCall(ctx, &Request{})
		synctest.Wait()
		if late.cause() != why {
			t.Errorf("a call with a context that is over has cause %v", late.cause())
		}
		for _, k := range slices.Concat(under, others, []*call{late}) {
			k.end()
		}
		if n := len(c.watches.of); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}
