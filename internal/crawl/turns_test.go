package crawl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/gate"
)

// Crawls of an account take turns, one after the other. Who gives up waiting holds none. No crawl waits for those of
// another account.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Shared{turns: gate.New(1, gate.OneEach)}
		first := all.takeTurn(t.Context(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		took := make(chan func(), 2)
		go func() { took <- all.takeTurn(ctx, "a") }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("two hold a turn at once")
		}
		all.takeTurn(t.Context(), "b")()
		cancel()
		(<-took)()
		go func() { took <- all.takeTurn(t.Context(), "a") }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("who gave up has ended the turn of another")
		}
		first()
		(<-took)()
		all.takeTurn(t.Context(), "a")()

		// No crawl waits for one that takes long, and the late end of that one ends no other turn.
		long := all.takeTurn(t.Context(), "a")
		began := time.Now()
		next := all.takeTurn(t.Context(), "a")
		if waited := time.Since(began); waited != longestTurn {
			t.Errorf("a turn came after %v", waited)
		}
		long()
		go func() { took <- all.takeTurn(t.Context(), "a") }()
		synctest.Wait()
		if len(took) > 0 {
			t.Error("a turn that was over has ended another")
		}
		next()
		(<-took)()
	})
}

// What is computed for an account waits for what its crawls compute, and not for other accounts. Who gives up waiting
// has no place.
func TestCompute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Shared{parsing: gate.New(1, gate.OneEach)}
		crawl := place{of: all.parsing.Join("a", 1), ctx: t.Context()}
		crawl.take()
		all.Compute(t.Context(), "b")()
		ctx, cancel := context.WithCancel(t.Context())
		took := make(chan func(), 1)
		go func() { took <- all.Compute(ctx, "a") }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("it has not waited")
		}
		cancel()
		(<-took)()
		go func() { took <- all.Compute(t.Context(), "a") }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("who gave up has ended the turn of the crawl")
		}
		crawl.end()
		(<-took)()
	})
}
