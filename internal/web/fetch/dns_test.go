package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

func newTestCache(t *testing.T, o Options) *dnsCache {
	t.Helper()
	o.setDefaults()
	c := newDNSCache(o, &sockets{free: semaphore.NewWeighted(1 << 10)})
	t.Cleanup(c.close)
	return c
}

func TestDNSSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := newTestCache(t, Options{Resolver: fakeResolver(func(context.Context, string) ([]netip.Addr, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		})})
		// Who gives up does not take the others' answer with him.
		impatient, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.lookup(impatient, "a.example"); err != context.DeadlineExceeded {
				t.Errorf("impatient: %v", err)
			}
		})
		time.Sleep(50 * time.Millisecond)
		for range 50 {
			wg.Go(func() {
				if addrs, err := c.lookup(t.Context(), "a.example"); err != nil || len(addrs) != 1 {
					t.Errorf("%v, %v", addrs, err)
				}
			})
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times, want once", asked.Load())
		}
	})
}

// Callers that give up leave no lookups behind, which would hold sockets: a client that asks for silent names has one
// lookup at a time. The next caller asks anew.
func TestDNSAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, underway, ended atomic.Int64
		answer := make(chan struct{})
		c := newTestCache(t, Options{Resolver: fakeResolver(func(ctx context.Context, _ string) ([]netip.Addr, error) {
			asked.Add(1)
			underway.Add(1)
			defer underway.Add(-1)
			select {
			case <-ctx.Done():
				ended.Add(1)
				return nil, ctx.Err()
			case <-answer:
				return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
			}
		})})
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := c.lookup(ctx, fmt.Sprintf("%d.example", i%10))
			if synctest.Wait(); err != context.DeadlineExceeded || underway.Load() != 0 || len(c.entries) > 0 {
				t.Fatalf("%v, %d lookups go on, %d are remembered", err, underway.Load(), len(c.entries))
			}
		}
		close(answer)
		if addrs, err := c.lookup(t.Context(), "0.example"); err != nil || len(addrs) != 1 {
			t.Errorf("%v, %v", addrs, err)
		}
		if asked.Load() != 21 || ended.Load() != 20 || c.recent.Len() != 1 {
			t.Errorf("asked %d times, %d given up, %d remembered", asked.Load(), ended.Load(), c.recent.Len())
		}
	})
}

func TestDNSTimes(t *testing.T) {
	notFound := &net.DNSError{Err: "no such host", IsNotFound: true}
	tests := []struct {
		name string
		err  error
		kept time.Duration
	}{
		{"found", nil, 5 * time.Minute},
		{"not found", notFound, 30 * time.Second},
		{"failed", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, 5 * time.Second},
		{"our failure", &net.DNSError{Err: "down", UnwrapErr: errNoResolver}, 0},
		{"of another type", fmt.Errorf("odd"), 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := newTestCache(t, Options{Resolver: fakeResolver(func(context.Context, string) ([]netip.Addr,
					error) {
					asked++
					return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, tt.err
				})})
				ask := func(want int) {
					t.Helper()
					_, err := c.lookup(t.Context(), "a.example")
					if _, isDNS := err.(*net.DNSError); err != nil && !isDNS {
						t.Errorf("error %T, want a *net.DNSError", err)
					}
					if asked != want {
						t.Errorf("asked %d times after %v, want %d", asked, tt.kept, want)
					}
				}
				ask(1)
				if tt.kept > 0 {
					time.Sleep(tt.kept - time.Nanosecond)
					ask(1)
					time.Sleep(time.Nanosecond)
				}
				ask(2)
			})
		})
	}
}

func TestDNSBoundedAndForgetful(t *testing.T) {
	asked := map[string]int{}
	c := newTestCache(t, Options{Resolver: fakeResolver(func(_ context.Context, host string) ([]netip.Addr,
		error) {
		asked[host]++
		return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
	})})
	ask := func(host string) {
		if _, err := c.lookup(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	ask("kept.example")
	for i := range dnsSize + 100 {
		ask(fmt.Sprintf("h%d.example", i))
		ask("kept.example")
	}
	if len(c.entries) != dnsSize || c.recent.Len() != dnsSize {
		t.Errorf("%d names and %d in order, want 10", len(c.entries), c.recent.Len())
	}
	if asked["kept.example"] != 1 {
		t.Errorf("a name in use was asked for %d times", asked["kept.example"])
	}
	c.forget("kept.example")
	ask("kept.example")
	if asked["kept.example"] != 2 {
		t.Errorf("a forgotten name was asked for %d times, want 2", asked["kept.example"])
	}
}

// TestDNSForgetsDeadAddresses changes a name's address after the connection to it
// has failed.
func TestDNSForgetsDeadAddresses(t *testing.T) {
	asked := 0
	c := newClient(t, Options{Resolver: fakeResolver(func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{netip.AddrFrom4([4]byte{8, 8, 8, byte(asked)})}, nil
	})})
	var dialled []string
	c.dialer.guarded = fakeDialer(func(_ context.Context, addr string) (net.Conn, error) {
		dialled = append(dialled, addr)
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("dead")}
	})
	for range 2 {
		_, _ = get(t, c, "http://a.example/")
	}
	if fmt.Sprint(dialled) != "[8.8.8.1:80 8.8.8.2:80]" {
		t.Errorf("dialled %v", dialled)
	}
}

func TestDNSTimeoutOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: fakeResolver(func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		start := time.Now()
		_, err := get(t, c, "http://a.example/")
		if KindOf(err) != DNSError || time.Since(start) != dnsTimeout {
			t.Errorf("%v after %v, want a DNS error after 10s", err, time.Since(start))
		}
	})
}
