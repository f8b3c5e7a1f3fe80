package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

func TestInterleave(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "[]"}, {"1.1.1.1", "[1.1.1.1]"},
		{"1.1.1.1 1.1.1.2", "[1.1.1.1 1.1.1.2]"},
		{"::1 ::2 1.1.1.1 1.1.1.2", "[::1 1.1.1.1 ::2 1.1.1.2]"},
		{"1.1.1.1 ::1 ::2 ::3", "[1.1.1.1 ::1 ::2 ::3]"},
		{"1.1.1.1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5 1.1.1.6 1.1.1.7 ::1",
			"[1.1.1.1 ::1 1.1.1.2 1.1.1.3 1.1.1.4 1.1.1.5]"},
	}
	for _, tt := range tests {
		var addrs []netip.Addr
		var a string
		for rest := tt.in; rest != ""; {
			if _, err := fmt.Sscan(rest, &a); err != nil {
				t.Fatal(err)
			}
			addrs = append(addrs, netip.MustParseAddr(a))
			rest = rest[min(len(rest), len(a)+1):]
		}
		if got := fmt.Sprint(interleave(addrs)); got != tt.want {
			t.Errorf("interleave(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestRace gives each address a time after which it connects or fails, and checks
// who wins, when, and that nothing is left open.
func TestRace(t *testing.T) {
	const never = time.Hour
	type host struct {
		addr  string
		after time.Duration
		fails bool
	}
	tests := []struct {
		name  string
		hosts []host
		wins  string
		at    time.Duration
	}{
		{"first", []host{{"1.1.1.1", 10 * time.Millisecond, false}, {"1.1.1.2", 0, false}}, "1.1.1.1",
			10 * time.Millisecond},
		{"second after the head start", []host{{"::1", never, false}, {"1.1.1.1", 20 * time.Millisecond, false}},
			"1.1.1.1", 270 * time.Millisecond},
		{"second at once when the first fails", []host{{"::1", 30 * time.Millisecond, true},
			{"1.1.1.1", 20 * time.Millisecond, false}}, "1.1.1.1", 50 * time.Millisecond},
		{"first after all", []host{{"::1", 300 * time.Millisecond, false}, {"1.1.1.1", 100 * time.Millisecond, false}},
			"::1", 300 * time.Millisecond},
		{"third", []host{{"1.1.1.1", never, false}, {"1.1.1.2", never, false}, {"1.1.1.3", 0, false}}, "1.1.1.3",
			500 * time.Millisecond},
		{"none", []host{{"1.1.1.1", 10 * time.Millisecond, true}, {"1.1.1.2", 10 * time.Millisecond, true}}, "",
			20 * time.Millisecond},
		{"none in time", []host{{"1.1.1.1", never, false}, {"1.1.1.2", never, false}}, "", 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var open []string // guarded by mu
				const free = 8
				tg := target{port: 80, network: &network{sockets: &sockets{free: semaphore.NewWeighted(free)}}}
				for _, h := range tt.hosts {
					tg.addrs = append(tg.addrs, netip.MustParseAddr(h.addr))
				}
				tg.dialer = fakeDialer(func(ctx context.Context, address string) (net.Conn, error) {
					addr := netip.MustParseAddrPort(address).Addr().String()
					h := tt.hosts[slices.IndexFunc(tt.hosts, func(h host) bool { return h.addr == addr })]
					select {
					case <-time.After(h.after):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if h.fails {
						return nil, fmt.Errorf("%s fails", addr)
					}
					mu.Lock()
					defer mu.Unlock()
					open = append(open, addr)
					return &closeFunc{close: func() {
						mu.Lock()
						defer mu.Unlock()
						open = slices.DeleteFunc(open, func(s string) bool { return s == addr })
					}}, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				_, err := tg.race(ctx, "tcp")
				if got := time.Since(start); got != tt.at {
					t.Errorf("ended after %v, want %v", got, tt.at)
				}
				if (err == nil) != (tt.wins != "") || err == nil && fmt.Sprint(open) != "["+tt.wins+"]" {
					t.Errorf("%v open, %v; want %q", open, err, tt.wins)
				}
				if left := free - tg.conns.Load(); !tg.sockets.free.TryAcquire(left) || tg.sockets.tryTake() {
					t.Errorf("%d connections are open, but not %d sockets are free", tg.conns.Load(), left)
				}
			})
		})
	}
}

type closeFunc struct {
	net.Conn
	close func()
}

func (c *closeFunc) Close() error { c.close(); return nil }
