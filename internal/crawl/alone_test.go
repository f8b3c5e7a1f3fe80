package crawl

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
)

// A page that is tried alone waits for the leases that are being served, those that come later wait for it, and a page that stops waiting lets them go on.
func TestAloneGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(math.MaxInt)
		if err := g.EnterIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []string
		enter := func(ctx context.Context, name string, alone bool) {
			go func() {
				if g.enter(ctx, alone) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			if len(order) != len(names) {
				t.Fatalf("served %q, want %q", order, names)
			}
			for i, name := range names {
				if order[i] != name {
					t.Fatalf("served %q, want %q", order, names)
				}
			}
		}
		leave := func(alone bool) {
			g.leave(alone)
			synctest.Wait()
		}
		ctx := t.Context()
		enter(ctx, "first", false)
		enter(ctx, "index", true)
		enter(ctx, "second", false)
		want("first", "second") // while an index is read, only the page waits
		g.LeaveIndex()
		synctest.Wait()
		enter(ctx, "third", false)
		leave(false)
		want("first", "second")
		leave(false)
		want("first", "second", "index")
		leave(true)
		want("first", "second", "index", "third")
		stopped, stop := context.WithCancel(ctx)
		enter(stopped, "stopped", true)
		enter(ctx, "fourth", false)
		want("first", "second", "index", "third")
		stop()
		synctest.Wait()
		want("first", "second", "index", "third", "fourth")
		leave(false)
		leave(false)
	})
}
