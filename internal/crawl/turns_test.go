package crawl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// One after the other takes a turn. Who gives up waiting holds none.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(turns, 1)
		first := all.take(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		took := make(chan func(), 2)
		go func() { took <- all.take(ctx) }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("two hold a turn at once")
		}
		cancel()
		(<-took)()
		go func() { took <- all.take(t.Context()) }()
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("who gave up has ended the turn of another")
		}
		first()
		(<-took)()
		all.take(t.Context())()

		// No crawl waits for one that takes long, and the late end of that one ends no other turn.
		long := all.take(t.Context())
		began := time.Now()
		next := all.take(t.Context())
		if waited := time.Since(began); waited != longestTurn {
			t.Errorf("a turn came after %v", waited)
		}
		long()
		if len(all) != 1 {
			t.Error("a turn that was over has ended another")
		}
		next()
	})
}
