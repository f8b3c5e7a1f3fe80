package frontier

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier/pace"
)

// addressOfHost is the address of all hosts in these tests, but for those whose names begin with "own".
func addressOfHost(name string) netip.Addr {
	if name[:3] == "own" {
		return netip.MustParseAddr("192.0.2.2")
	}
	return netip.MustParseAddr("192.0.2.1")
}

// A reacher serves leases as a worker does, with addresses.
type reacher struct {
	f     *Frontier
	takes time.Duration

	mu     sync.Mutex
	starts map[string][]time.Time // by address
	order  []string               // of what was asked of the shared address
	busy   int                    // leases that came back
	under  map[string]int
	most   int
}

// run serves leases with so many workers until there are none left.
func (r *reacher) run(t *testing.T, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				l, err := r.f.Next(t.Context())
				if err != nil {
					if !errors.Is(err, ErrDrained) && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				r.serve(t, l)
			}
		})
	}
	wg.Wait()
}

func (r *reacher) serve(t *testing.T, l *Lease) {
	addr := addressOfHost(l.URL().Host())
	if err := l.Reach(addr); err != nil {
		r.mu.Lock()
		r.busy++
		r.mu.Unlock()
		if !errors.Is(err, ErrAddressBusy) {
			t.Error(err)
		}
		if d := done(t, l, Result{}); d != Returned {
			t.Errorf("a lease that must wait is %v", d)
		}
		return
	}
	startLease(t, l)
	name := addr.String()
	r.mu.Lock()
	r.starts[name] = append(r.starts[name], time.Now())
	if addr == addressOfHost("any") {
		r.order = append(r.order, l.URL().String())
	}
	r.under[name]++
	r.most = max(r.most, r.under[name])
	r.mu.Unlock()
	time.Sleep(r.takes)
	r.mu.Lock()
	r.under[name]--
	r.mu.Unlock()
	if l.Kind() == KindRobots {
		done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(24 * time.Hour)})
		return
	}
	done(t, l, ok())
}

// Hosts of one address are asked at the pace of the address, robots.txt included. A lease comes back once
// for each request at most. Hosts of another address do not wait for it. All hold with more hosts than may be active,
// and with several requests to one host at once.
func TestHostsOfOneAddress(t *testing.T) {
	for name, o := range map[string]Options{
		"one at a time": {Pace: perSecond()},
		"at once":       {Pace: fast(5), IgnoreRobots: true},
		"parked":        {Pace: perSecond(), MaxHosts: 20, Shards: 2},
		"two in memory": {Pace: fast(2), MaxInMemory: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hosts, pages, own = 60, 3, 20
				o.Addresses = pace.NewAddresses().Share("", nil)
				store := newMemStore()
				f := newTest(t, o, store)
				for i := range hosts {
					for p := range pages {
						add(t, f, seeds(fmt.Sprintf("http://h%d.example/%d", i, p))...)
					}
				}
				for p := range own {
					add(t, f, seeds(fmt.Sprintf("http://own.test/%d", p))...)
				}
				r := &reacher{f: f, takes: 30 * time.Millisecond, starts: map[string][]time.Time{},
					under: map[string]int{}}
				began := time.Now()
				r.run(t, 16)
				shared, alone := r.starts["192.0.2.1"], r.starts["192.0.2.2"]
				want := hosts * pages
				if !o.IgnoreRobots {
					want += hosts
				}
				if len(shared) != want {
					t.Errorf("%d requests to the shared address, want %d", len(shared), want)
				}
				for i, at := range shared[1:] {
					if gap := at.Sub(shared[i]); gap < 100*time.Millisecond {
						t.Errorf("request %d began %v after the one before it", i+1, gap)
					}
				}
				took := time.Duration(want) * 100 * time.Millisecond
				if got := shared[len(shared)-1].Sub(began); got > took*11/10 {
					t.Errorf("the shared address took %v, want %v", got, took)
				}
				if got := alone[len(alone)-1].Sub(began); got > 23*time.Second {
					t.Errorf("a host of another address took %v", got)
				}
				if r.busy > want+want/2 || r.most > 8 {
					t.Errorf("%d leases came back, %d requests under way at once", r.busy, r.most)
				}
				// A host has a delay of up to a second between its robots.txt and its first page.
				if n := slices.IndexFunc(r.order, isPage); n > 15 {
					t.Errorf("%d robots.txt were fetched before the first page", n)
				}
				checkInvariants(t, f)
				checkEmpty(t, f, store)
			})
		})
	}
}

func isPage(url string) bool { return !strings.HasSuffix(url, "/robots.txt") }

// A host that has two addresses, of which the first does not answer, is asked when its turn at the second has come:
// it keeps its place there while it tries the first again.
func TestTwoAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := pace.NewAddresses()
		dead, busy := addressOfHost("own"), addressOfHost("any")
		f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Addresses: all.Share("", nil)}, newMemStore())
		reach := func(l *Lease, addr netip.Addr, want error) {
			t.Helper()
			if err := l.Reach(addr); !errors.Is(err, want) {
				t.Errorf("%s at %s: %v, want %v", l.URL(), addr, err, want)
			}
		}
		add(t, f, seeds("http://a.example/")...)
		first := next(t, f)
		reach(first, busy, nil)
		add(t, f, seeds("http://b.example/")...)
		l := next(t, f)
		reach(l, dead, nil)
		reach(l, busy, ErrAddressBusy)
		done(t, l, Result{})
		for i := range 5 { // behind it in the line
			add(t, f, seeds(fmt.Sprintf("http://c%d.example/", i))...)
			l := next(t, f)
			reach(l, busy, ErrAddressBusy)
			done(t, l, Result{})
		}
		l = next(t, f)
		if l.URL().Host() != "b.example" {
			t.Fatalf("%s is let in first", l.URL())
		}
		reach(l, dead, nil)
		reach(l, busy, nil)
		startLease(t, l)
		done(t, l, ok())
		done(t, first, ok())
		for range 5 {
			l := next(t, f)
			reach(l, busy, nil)
			done(t, l, ok())
		}
		if n := len(f.shards.all[0].addresses.hosts); n > 0 {
			t.Errorf("%d hosts wait", n)
		}
	})
}

// The robots.txt of one host is at another, which waits far back in the line of their address. It goes first, so that
// the answer comes before the first host stops to wait for it.
func TestRobotsElsewhereOnABusyAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 500 // 50 s, and robotsPatience is 30 s
		f := newTest(t, Options{Pace: fast(1), Addresses: pace.NewAddresses().Share("", nil)}, newMemStore())
		for i := range hosts {
			add(t, f, seeds(fmt.Sprintf("http://h%d.example/", i))...)
		}
		add(t, f, seeds("http://www.test/")...)
		turn := func() *Lease { // the next lease that may start
			for {
				l := next(t, f)
				if l.Reach(addressOfHost("any")) == nil {
					startLease(t, l)
					return l
				}
				done(t, l, Result{})
			}
		}
		answered := func(l *Lease) {
			if l.Kind() == KindPage {
				done(t, l, ok())
			} else {
				done(t, l, Result{Class: pace.ClassOK, RobotsUntil: time.Now().Add(time.Hour)})
			}
		}
		for f.Stats().Hosts["address"] < hosts-1 {
			answered(turn())
		}
		var from *Lease
		for from = turn(); from.Kind() != KindRobots; from = turn() {
			answered(from)
		}
		began, origin := time.Now(), from.URL().Origin()
		done(t, from, Result{Class: pace.ClassOK, RobotsAt: mustParse(t, "http://www.test/robots.txt")})
		for {
			l := turn()
			if task := l.Robots(); l.Kind() == KindRobots && slices.Contains(task.Origins, origin) && !task.Late &&
				l.URL().Host() == "www.test" {
				done(t, l, Result{})
				break
			}
			if time.Since(began) > time.Second {
				t.Fatalf("after %v the host with the robots.txt of %s is not asked", time.Since(began), origin)
			}
			answered(l)
		}
		checkInvariants(t, f)
	})
}

// A host that waits for its address says so. It leaves the line when it is blocked, and when the frontier is closed.
func TestAddressWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := pace.NewAddresses()
		addr := addressOfHost("any")
		open := func(hosts ...string) (*Frontier, []*Lease) {
			f := newTest(t, Options{Pace: fast(1), IgnoreRobots: true, Addresses: all.Share("", nil)}, newMemStore())
			var leases []*Lease
			for _, h := range hosts {
				add(t, f, seeds("http://"+h+"/")...)
				leases = append(leases, next(t, f))
			}
			return f, leases
		}
		reach := func(l *Lease, want error) {
			t.Helper()
			if err := l.Reach(addr); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", l.URL(), err, want)
			}
			if want != nil {
				done(t, l, Result{})
			}
		}
		_, held := open("a.example")
		reach(held[0], nil)
		reach(held[0], nil) // the same place
		f, leases := open("b.example", "c.example")
		reach(leases[0], ErrAddressBusy)
		reach(leases[1], ErrAddressBusy)
		if st := f.Stats(); st.Hosts["address"] != 2 || st.Next >= 0 {
			t.Errorf("%d hosts wait for their address, the next in %v", st.Hosts["address"], st.Next)
		}
		checkInvariants(t, f)
		f.Block("b.example")
		began := time.Now()
		if l := next(t, f); l.URL().Host() != "c.example" || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%s after %v, want c.example after 100ms", l.URL().Host(), time.Since(began))
		} else {
			reach(l, nil)
			if err := l.Reach(addressOfHost("own")); err != nil {
				t.Error(err)
			}
			startLease(t, l)
			if err := l.Start(); !errors.Is(err, ErrTooSoon) {
				t.Errorf("a further request at once: %v", err)
			}
			done(t, l, ok())
			if err := l.Reach(addr); !errors.Is(err, ErrDone) {
				t.Errorf("after the end: %v", err)
			}
		}
		third, leases := open("d.example", "e.example")
		reach(leases[0], ErrAddressBusy)
		reach(leases[1], ErrAddressBusy)
		if err := third.Close(); err != nil {
			t.Fatal(err)
		}
		fourth, leases := open("f.example")
		reach(leases[0], ErrAddressBusy)
		began = time.Now()
		reach(next(t, fourth), nil)
		if got := time.Since(began); got > 100*time.Millisecond {
			t.Errorf("%v after the hosts of a closed crawl left the line", got)
		}
		done(t, held[0], ok())
	})
}
