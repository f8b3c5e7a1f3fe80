package pace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// guests are hosts that ask addresses, as a frontier does. Each is one goroutine.
type guests struct {
	t      *testing.T
	mu     sync.Mutex
	under  map[netip.Addr]int
	most   map[netip.Addr]int
	starts map[netip.Addr][]time.Time
	order  []string // names, as they started
	refuse int      // how often Take had a host wait
	wg     sync.WaitGroup
}

func newGuests(t *testing.T) *guests {
	return &guests{t: t, under: map[netip.Addr]int{}, most: map[netip.Addr]int{},
		starts: map[netip.Addr][]time.Time{}}
}

// ask starts a host that makes requests one after another, each of which takes the given time.
func (g *guests) ask(s *AddressShare, name string, addr netip.Addr, requests int, takes time.Duration) {
	woken := make(chan struct{}, 1)
	g.wg.Go(func() {
		var w *AddressWait
		for range requests {
			var a *Address
			for {
				if a, w = s.Take(addr, w, false, func(*AddressWait) { woken <- struct{}{} }); a != nil {
					break
				}
				g.mu.Lock()
				g.refuse++
				g.mu.Unlock()
				<-woken
			}
			g.mu.Lock()
			g.under[addr]++
			g.most[addr] = max(g.most[addr], g.under[addr])
			g.starts[addr] = append(g.starts[addr], time.Now())
			g.order = append(g.order, name)
			g.mu.Unlock()
			time.Sleep(takes)
			g.mu.Lock()
			g.under[addr]--
			g.mu.Unlock()
			a.Release(s)
		}
	})
}

// check waits for all hosts, and compares the pace of an address with its limits. It returns how long the requests took.
func (g *guests) check(addr netip.Addr, limit int, gap time.Duration) time.Duration {
	g.t.Helper()
	g.wg.Wait()
	starts := g.starts[addr]
	for i, at := range starts[1:] {
		if d := at.Sub(starts[i]); d < gap {
			g.t.Errorf("%s: request %d started %v after the one before it, want at least %v", addr, i+1, d, gap)
		}
	}
	if g.most[addr] > limit {
		g.t.Errorf("%s: %d under way at once, want at most %d", addr, g.most[addr], limit)
	}
	return starts[len(starts)-1].Sub(starts[0])
}

func TestAddressPace(t *testing.T) {
	busy, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, tt := range []struct {
		name     string
		machines int
		takes    time.Duration
		limit    int
		gap      time.Duration
		want     time.Duration // between the first start and the last
	}{
		{"fast answers", 1, 10 * time.Millisecond, 8, 100 * time.Millisecond, 199 * 100 * time.Millisecond},
		// Eight at a time: 25 rounds of 2 s, in which the starts are spread over 800 ms.
		{"slow answers", 1, 2 * time.Second, 8, 100 * time.Millisecond, 24*2*time.Second + 700*time.Millisecond},
		{"three machines", 3, 10 * time.Millisecond, 2, 300 * time.Millisecond, 199 * 300 * time.Millisecond},
		{"twenty machines", 20, 10 * time.Millisecond, 1, 2 * time.Second, 199 * 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, all := newGuests(t), NewAddresses()
				s := all.Share("", func() int { return tt.machines })
				for i := range 100 {
					g.ask(s, fmt.Sprint(i), busy, 2, tt.takes)
				}
				synctest.Wait()
				g.ask(s, "other", other, 1, 0)
				took := g.check(busy, tt.limit, tt.gap)
				if took != tt.want {
					t.Errorf("200 requests took %v, want %v", took, tt.want)
				}
				if first := slices.Index(g.order, "other"); first > 1 {
					t.Errorf("a host of another address was the one to start number %d", first)
				}
				if g.refuse > 200 {
					t.Errorf("200 requests were refused %d times", g.refuse)
				}
				// In the first round the hosts come in any order; in the second in the same.
				if n := len(g.order); n != 201 || g.order[n-1] != g.order[n-101] {
					t.Errorf("%d requests, and the hosts did not keep their order", n)
				}
			})
		})
	}
}

// The crawls of a process take turns at an address, however many hosts each has.
func TestAddressTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("2001:db8::1")
		g, all := newGuests(t), NewAddresses()
		large, small := all.Share("", nil), all.Share("", nil)
		for range 200 {
			g.ask(large, "large", addr, 1, 0)
		}
		synctest.Wait()
		for range 10 {
			g.ask(small, "small", addr, 1, 0)
		}
		g.check(addr, 8, 100*time.Millisecond)
		last := 0
		for i, name := range g.order {
			if name == "small" {
				last = i
			}
		}
		if last > 22 {
			t.Errorf("the last of ten hosts of the small crawl was number %d", last)
		}
	})
}

// Accounts take turns at an address, however many crawls each has, and so do the crawls of an account.
func TestAddressTurnsOfAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		g, all := newGuests(t), NewAddresses()
		ask := func(account, crawl string, hosts int) {
			s := all.Share(account, nil)
			for range hosts {
				g.ask(s, crawl, addr, 1, 0)
			}
			synctest.Wait()
		}
		for i := range 5 {
			ask("large", fmt.Sprint(i), 6)
		}
		ask("small", "s", 12)
		g.check(addr, 8, 100*time.Millisecond)
		// The first request starts without a line. Then the line of the same crawl is the first.
		want := "00s1s2s3s4s0s1s2s3s4s0s1s23401234012341234"
		if got := strings.Join(g.order, ""); got != want {
			t.Errorf("hosts were let in in the order %s, want %s", got, want)
		}
	})
}

// An account whose requests do not end leaves places to others, who do the same. A process without accounts uses all
// places.
func TestAddressKeptPlaces(t *testing.T) {
	for _, tt := range []struct {
		name     string
		accounts []string
		machines int
		want     []int // places of each account
	}{
		{"accounts", []string{"a", "b", "c", "d"}, 1, []int{6, 1, 1, 0}},
		{"two machines", []string{"a", "b", "c"}, 2, []int{3, 1, 0}},
		{"four machines", []string{"a", "b", "c"}, 4, []int{1, 1, 0}},
		{"eight machines", []string{"a", "b"}, 8, []int{1, 0}},
		{"no accounts", []string{"", ""}, 1, []int{8, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				addr := netip.MustParseAddr("192.0.2.1")
				g, all := newGuests(t), NewAddresses()
				for i, account := range tt.accounts {
					for range 2 { // crawls
						s := all.Share(account, func() int { return tt.machines })
						for range 9 {
							g.ask(s, fmt.Sprint(i), addr, 2, 30*time.Minute)
						}
					}
					time.Sleep(time.Minute)
				}
				g.mu.Lock()
				for i, want := range tt.want {
					held := 0
					for _, name := range g.order {
						if name == fmt.Sprint(i) {
							held++
						}
					}
					if held != want {
						t.Errorf("account %d has %d places, want %d", i, held, want)
					}
				}
				g.mu.Unlock()
				g.check(addr, addressInflight/tt.machines, time.Duration(tt.machines)*addressGap)
				if at := all.byAddr[addr]; at.isUsed() || at.under != [addressInflight]*AddressShare{} {
					t.Errorf("at the end, %d requests are under way: %v", at.inflight, at.under)
				}
			})
		})
	}
}

// Two accounts that have many hosts on an address use all of its places but one, each about half of them.
func TestAddressOfTwoAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		g, all := newGuests(t), NewAddresses()
		for _, account := range []string{"a", "b"} {
			s := all.Share(account, nil)
			for range 20 {
				g.ask(s, account, addr, 7, 10*time.Second)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(addressGap / 2) // no request begins at that moment, nor a multiple of ten seconds later
		g.mu.Lock()
		before := len(g.order)
		g.mu.Unlock()
		time.Sleep(100 * time.Second)
		g.mu.Lock()
		began := slices.Clone(g.order[before:])
		g.mu.Unlock()
		ofA := 0
		for _, account := range began {
			if account == "a" {
				ofA++
			}
		}
		if ofB := len(began) - ofA; ofA+ofB != 70 || ofA < 30 || ofB < 30 {
			t.Errorf("%d and %d requests began in the time of ten, want 70 and equally many", ofA, ofB)
		}
		g.check(addr, 7, addressGap)
	})
}

// A host that does not come when it is let in holds up the others for a second, in which seven others are let in, and
// keeps its place. One that leaves holds up none of them.
func TestAddressAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		all := NewAddresses()
		s := all.Share("", nil)
		first, _ := s.Take(addr, nil, false, nil)
		first.Release(s)
		began := time.Now()
		_, gone := s.Take(addr, nil, false, func(*AddressWait) { t.Error("a host that left was let in") })
		let := make(chan time.Time, 2)
		_, absent := s.Take(addr, nil, false, func(*AddressWait) { let <- time.Now() })
		gone.Leave()
		g := newGuests(t)
		for i := range 30 {
			g.ask(s, fmt.Sprint(i), addr, 1, 0)
		}
		took := g.check(addr, 8, 100*time.Millisecond)
		if at := (<-let).Sub(began); at != 100*time.Millisecond {
			t.Errorf("the first in the line was let in after %v", at)
		}
		if took != 29*100*time.Millisecond {
			t.Errorf("30 hosts behind one that is absent took %v", took)
		}
		g.ask(s, "late", addr, 20, 0)
		synctest.Wait()
		time.Sleep(150 * time.Millisecond)
		held, absent := s.Take(addr, absent, false, nil)
		if held == nil { // it is the first in the line then
			<-let
			held, _ = s.Take(addr, absent, false, nil)
		}
		g.mu.Lock()
		others := len(g.order)
		g.mu.Unlock()
		if held == nil || others > 33 {
			t.Errorf("the host that came late was not the next: %v after %d others", held, others)
		} else {
			held.Release(s)
		}
		g.wg.Wait()
	})
}

// Addresses that are not in use are forgotten, also if a host was let in and sent no request.
func TestAddressesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewAddresses()
		s := all.Share("", nil)
		for i := range 10_000 {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
			a, _ := s.Take(addr, nil, false, nil)
			if i%3 == 0 {
				s.Take(addr, nil, false, func(*AddressWait) {})
			}
			if i%3 == 1 {
				_, w := s.Take(addr, nil, false, func(*AddressWait) {})
				w.Leave()
			}
			a.Release(s)
			time.Sleep(time.Millisecond)
		}
		if n := all.Len(); n > 2000 {
			t.Errorf("%d addresses are kept, but 1,100 were used in the last second", n)
		}
	})
}
