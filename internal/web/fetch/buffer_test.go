package fetch

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func (c *claim) isGranted() bool {
	select {
	case <-c.granted:
		return true
	default:
		return false
	}
}

// Memory that is released goes to the claims that waited longest, those of the shares in turn. No other call wakes.
func TestClaimsInTurn(t *testing.T) {
	t.Parallel()
	b := &budget{free: 1000}
	hog := &holding{share: &share{}}
	if b.claim(hog, 750) != nil || b.claim(hog, 250) != nil { // the second is beyond the budget
		t.Fatal("nothing is granted of an empty budget")
	}
	var claims []*claim
	shares := []*share{{over: hog}, {over: hog}} // so that they get nothing beyond the budget
	for i := range 200 {
		c := b.claim(&holding{share: shares[i/100]}, 250)
		if c == nil {
			t.Fatalf("claim %d is granted of what is not free", i)
		}
		claims = append(claims, c)
	}
	order := []int{0, 100, 1}
	b.release(hog, 1000)
	for i, c := range claims {
		if c.isGranted() != slices.Contains(order, i) {
			t.Errorf("claim %d is granted: %t", i, c.isGranted())
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if b.await(gone, claims[101]) || !b.await(gone, claims[100]) {
		t.Error("a call that has ended got memory, or lost what it was granted")
	}
	b.release(claims[100].to, 250)
	if !claims[102].isGranted() || claims[101].isGranted() || claims[2].isGranted() {
		t.Error("the claim after one that is gone was not the next")
	}
}

// The Clients of an account have one share, however many they are. Those without an account have one each.
func TestShareOfAnAccount(t *testing.T) {
	t.Parallel()
	base := newClient(t, Options{MaxMemory: 1600})
	b := &base.buffers.budget
	hold := func(name string) (bytes int64) {
		client := clientFor(t, base, Options{Account: name})
		for ; b.claim(&holding{share: client.account}, 10) == nil; bytes += 10 {
		}
		return bytes
	}
	for i, want := range []int64{1200 + 10, 0, 0} { // one call has memory beyond the budget
		if got := hold("a"); got != want {
			t.Errorf("client %d of an account has %d bytes, want %d", i, got, want)
		}
	}
	if got := hold("b"); got != 300+10 {
		t.Errorf("another account has %d bytes", got)
	}
	if one, other := hold(""), hold(""); one != 70+10 || other != 20+10 {
		t.Errorf("clients without an account have %d and %d bytes", one, other)
	}
}

// Whatever calls ask for, release and give up: what is free and what is granted is the whole budget, no claim waits
// that could be granted, and in the end all is free.
func TestBudgetModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const whole = 100
		b := &budget{free: whole}
		shares := []*share{{}, {}, {}}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		type user struct {
			memory holding
			held   int64
			waits  *claim
		}
		var users []*user
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			users = append(users, &user{memory: holding{share: shares[rapid.IntRange(0, 2).Draw(t, "share")]}})
		}
		settle := func() {
			var granted int64
			for _, u := range users {
				if u.waits != nil && u.waits.isGranted() {
					u.held += u.waits.bytes
					u.waits = nil
				}
				granted += u.held - u.memory.beyond
			}
			if granted+b.free != whole || b.free < 0 {
				t.Fatalf("%d granted and %d free of %d", granted, b.free, whole)
			}
			for _, s := range shares {
				if len(s.claims) > 0 && s.over == nil {
					t.Fatal("a claim waits though its share has nothing beyond the budget")
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			u := users[rapid.IntRange(0, len(users)-1).Draw(t, "call")]
			switch {
			case u.waits != nil && rapid.Bool().Draw(t, "gives up"):
				if b.await(gone, u.waits) {
					t.Fatal("a claim was granted and not noticed")
				}
				u.waits = nil
			case u.waits != nil:
			case u.held > 0 && rapid.Bool().Draw(t, "releases"):
				b.release(&u.memory, u.held)
				u.held = 0
			default:
				n := rapid.Int64Range(1, 150).Draw(t, "bytes")
				if u.waits = b.claim(&u.memory, n); u.waits == nil {
					u.held += n
				}
			}
			settle()
		}
		for left := true; left; {
			left = false
			for _, u := range users {
				if u.held > 0 && u.waits == nil {
					b.release(&u.memory, u.held)
					u.held, left = 0, true
				}
			}
			settle()
		}
		if b.free != whole || len(b.queues) > 0 {
			t.Fatalf("%d free of %d, %d shares wait", b.free, whole, len(b.queues))
		}
	})
}
