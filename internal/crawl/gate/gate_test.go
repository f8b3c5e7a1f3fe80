package gate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A page that is tried alone waits for the leases of its crawl that are being served, those that come later wait for it,
// and a page that stops waiting lets them go on. Other crawls are served all the time, also of the same account.
func TestAloneGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(math.MaxInt, Spare)
		p := g.Join("a", math.MaxInt)
		for _, other := range []*Party{p, g.Join("a", math.MaxInt), g.Join("b", math.MaxInt)} {
			if err := other.EnterIndex(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		others := func() {
			t.Helper()
			for _, name := range []string{"a", "b"} {
				other, served := g.Join(name, math.MaxInt), false
				go func() {
					served = other.Enter(t.Context(), false) == nil
				}()
				synctest.Wait()
				if !served {
					t.Fatalf("another crawl of %s waits", name)
				}
			}
		}
		var order []string
		enter := func(ctx context.Context, name string, alone bool) {
			go func() {
				if p.Enter(ctx, alone) == nil {
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
			p.Leave(alone)
			synctest.Wait()
		}
		ctx := t.Context()
		enter(ctx, "first", false)
		enter(ctx, "index", true)
		enter(ctx, "second", false)
		want("first", "second") // while an index is read, only the page waits
		p.LeaveIndex()
		synctest.Wait()
		enter(ctx, "third", false)
		leave(false)
		want("first", "second")
		others()
		leave(false)
		want("first", "second", "index")
		others()
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

// While all places are taken, accounts take turns, and so do the crawls of an account, however many leases each of them
// has waiting.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(1, Spare)
		holder := g.Join("holder", math.MaxInt)
		if err := holder.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []string
		stopped, stop := context.WithCancel(t.Context())
		wait := func(ctx context.Context, p *Party, name string, n int) {
			for range n {
				go func() {
					if p.Enter(ctx, false) == nil {
						order = append(order, name)
						p.Leave(false)
					}
				}()
				synctest.Wait()
			}
		}
		huge, other, gone := g.Join("a", math.MaxInt), g.Join("a", math.MaxInt), g.Join("c", math.MaxInt)
		wait(t.Context(), huge, "A", 6)
		wait(stopped, gone, "C", 3)
		wait(t.Context(), other, "a", 2)
		wait(t.Context(), g.Join("b", math.MaxInt), "b", 4)
		stop()
		synctest.Wait()
		holder.Leave(false)
		synctest.Wait()
		if got, want := strings.Join(order, ""), "AbabAbabAAAA"; got != want {
			t.Errorf("served in the order %s, want %s", got, want)
		}
	})
}

// Of fifty crawls, one has a hundred times as many leases waiting as any other. Every other one gets at least half of
// its fair share, be it of the same account or of another.
func TestOneHugeCrawl(t *testing.T) {
	for _, name := range []func(int) string{
		func(i int) string { return fmt.Sprint("account ", i) },
		func(int) string { return "one account" },
	} {
		synctest.Test(t, func(t *testing.T) {
			const crawls, places = 50, 8
			g := New(places, All)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var served [crawls]atomic.Int64
			var all sync.WaitGroup
			for i := range crawls {
				p := g.Join(name(i), math.MaxInt)
				workers := 2
				if i == 0 {
					workers = 200
				}
				for range workers {
					all.Go(func() {
						for p.Enter(ctx, false) == nil {
							time.Sleep(10 * time.Millisecond)
							served[i].Add(1)
							p.Leave(false)
						}
					})
				}
			}
			all.Wait()
			total := int64(0)
			for i := range served {
				total += served[i].Load()
			}
			if want := int64(places * 10 * 100); total < want*9/10 {
				t.Errorf("%d leases were served, want about %d", total, want)
			}
			for i := range served {
				if got := served[i].Load(); got < total/crawls/2 {
					t.Errorf("crawl %d was served %d of %d leases", i, got, total)
				}
			}
		})
	}
}

// An account that keeps its places leaves some for others, who do the same.
func TestKeptPlaces(t *testing.T) {
	for _, c := range []struct {
		most int
		rule Rule
		want []int // places of the first, second and third account
	}{
		{512, Spare, []int{384, 96, 24}},
		{8, Spare, []int{6, 1, 1}},
		{4, Spare, []int{3, 1, 0}},
		{2, Spare, []int{1, 1, 0}},
		{1, Spare, []int{1, 0, 0}},
		{8, All, []int{8, 0, 0}},
		{2, OneEach, []int{2, 1, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := New(c.most, c.rule)
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i, want := range c.want {
				p := g.Join(fmt.Sprint(i), math.MaxInt)
				var held atomic.Int64
				for range c.most + 1 {
					all.Go(func() {
						if p.Enter(ctx, false) == nil {
							held.Add(1)
							<-ctx.Done()
							p.Leave(false)
						}
					})
				}
				synctest.Wait()
				if held.Load() != int64(want) {
					t.Errorf("of %d places, account %d has %d, want %v", c.most, i, held.Load(), c.want)
				}
			}
			stop()
			all.Wait()
			if g.free != c.most {
				t.Errorf("%d of %d places are free", g.free, c.most)
			}
			for name, a := range g.accounts {
				if a.held != 0 {
					t.Errorf("account %s has %d places", name, a.held)
				}
			}
		})
	}
}

// A waiter whose context ends at the same moment as its turn comes gives its place to the next one, so that no place is
// lost.
func TestNoPlaceIsLost(t *testing.T) {
	g := New(2, All)
	p := g.Join("a", math.MaxInt)
	for range 200 {
		if err := p.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := p.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		for _, alone := range []bool{false, true} {
			go func() {
				err := p.Enter(ctx, alone)
				if err == nil {
					p.Leave(alone)
				}
				done <- err == nil
			}()
		}
		go cancel()
		p.Leave(false)
		p.Leave(false)
		<-done
		<-done
	}
	if g.free != 2 || p.held != 0 || p.lone || len(p.alone) != 0 {
		t.Errorf("%d of 2 places are free, %d held, %d pages wait", g.free, p.held, len(p.alone))
	}
}

// A crawl has no more places than it joined with, and all have fewer while some are reserved. Those that have a place
// keep it.
func TestReservedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(4, All)
		narrow, wide := g.Join("a", 2), g.Join("b", math.MaxInt)
		enter := func(p *Party, n int) {
			for range n {
				go func() { _ = p.Enter(t.Context(), false) }()
				synctest.Wait()
			}
		}
		use := func(p *Party, held, waiting int, waits int64) {
			t.Helper()
			synctest.Wait()
			if h, w, all := p.Use(); h != held || w != waiting || all != waits {
				t.Errorf("%d held, %d wait, %d waited; want %d, %d, %d", h, w, all, held, waiting, waits)
			}
		}
		enter(narrow, 3)
		use(narrow, 2, 1, 1)
		enter(wide, 3)
		use(wide, 2, 1, 1)
		g.Reserve(3)
		use(wide, 2, 1, 1)
		for range 2 {
			wide.Leave(false)
		}
		use(wide, 0, 1, 1)
		narrow.Leave(false)
		use(narrow, 1, 1, 1)
		g.Reserve(-3)
		use(wide, 1, 0, 1)
		use(narrow, 2, 0, 1)
		narrow.Leave(false)
		narrow.Leave(false)
		wide.Leave(false)
		if g.free != 4 {
			t.Errorf("%d of 4 places are free", g.free)
		}
	})
}
