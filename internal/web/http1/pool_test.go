package http1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A deadConn is a connection that is only ever closed.
type deadConn struct {
	net.Conn
	closed bool
}

func (c *deadConn) Close() error { c.closed = true; return nil }

// TestPoolModel holds the pool against a slice of connections in order of use.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := PoolOptions{
			MaxIdlePerHost: rapid.IntRange(1, 4).Draw(t, "perHost"),
			MaxIdle:        rapid.IntRange(1, 8).Draw(t, "max"),
			IdleTimeout:    time.Hour,
		}
		var handed atomic.Int64
		o.Elsewhere = func() int { return int(handed.Load()) }
		p := NewPool(o)
		defer p.Close()
		transports := []*Transport{New(p, Options{}), New(p, Options{})}
		key := func(t *rapid.T) poolKey {
			return poolKey{transports[rapid.IntRange(0, 1).Draw(t, "transport")],
				fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "origin"))}
		}
		var model []*conn // the least recently used first
		var all []*conn
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c := newConn(&deadConn{}, key(t))
				all = append(all, c)
				p.put(c)
				same := 0
				for _, m := range model {
					if m.key == c.key {
						same++
					}
				}
				if same >= o.MaxIdlePerHost {
					return
				}
				model = append(model, c)
				limit := o.MaxIdle - min(int(handed.Load()), o.MaxIdle/2)
				model = model[max(0, len(model)-limit):]
			},
			"take": func(t *rapid.T) {
				key := key(t)
				got := p.take(key)
				for i, m := range slices.Backward(model) {
					if m.key == key {
						if got != m {
							t.Fatalf("took another than the newest of %v", key)
						}
						model = slices.Delete(model, i, i+1)
						all = slices.DeleteFunc(all, func(c *conn) bool { return c == got })
						return
					}
				}
				if got != nil {
					t.Fatalf("took one of %v where there is none", key)
				}
			},
			"hand over": func(t *rapid.T) { handed.Store(int64(rapid.IntRange(0, 10).Draw(t, "handed"))) },
			"close":     func(*rapid.T) { p.CloseIdle(); model = nil },
			"close one transport": func(t *rapid.T) {
				of := transports[rapid.IntRange(0, 1).Draw(t, "transport")]
				of.CloseIdle()
				model = slices.DeleteFunc(model, func(c *conn) bool { return c.key.t == of })
			},
			"": func(t *rapid.T) {
				for _, c := range all {
					if kept := slices.Contains(model, c); c.conn.(*deadConn).closed == kept {
						t.Fatalf("a connection of %v is kept: %v, and closed: %v", c.key, kept, !kept)
					}
				}
				if p.n != len(model) || p.set != (p.set && p.timer != nil) || len(model) > 0 && !p.set {
					t.Fatalf("%d in the pool, want %d; timer set: %v", p.n, len(model), p.set)
				}
			},
		})
	})
}

// TestIdleTimeout measures how long connections stay, with one timer for all.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, PoolOptions{IdleTimeout: 30 * time.Second}, Options{})
		c.pipe = func(c net.Conn) {
			for readRequest(c) {
				_, _ = io.WriteString(c, goodEnd)
			}
		}
		ask := func(host string) answer {
			t.Helper()
			a, err := get(t, c, "http://"+host+".example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		open := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := c.open.Load(); got != want {
				t.Fatalf("%d connections open, want %d", got, want)
			}
		}
		ask("a") // at 0 s
		time.Sleep(10 * time.Second)
		ask("b") // at 10 s
		time.Sleep(10 * time.Second)
		if !ask("a").reused { // at 20 s
			t.Error("connection was not kept for 20s")
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		open(2)
		time.Sleep(time.Nanosecond) // 40 s
		open(1)
		time.Sleep(10*time.Second - 1)
		open(1)
		time.Sleep(time.Nanosecond) // 50 s
		open(0)
		if c.pool.set {
			t.Error("timer is set for nothing")
		}
		time.Sleep(time.Hour)
		if ask("a").reused {
			t.Error("a closed connection was used")
		}
		time.Sleep(30 * time.Second)
		open(0)
	})
}

// TestPoolBounds asks several hosts several times at once.
func TestPoolBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, PoolOptions{MaxIdle: 5, MaxIdlePerHost: 2}, Options{})
		c.pipe = func(c net.Conn) {
			for readRequest(c) {
				time.Sleep(time.Second)
				_, _ = io.WriteString(c, goodEnd)
			}
		}
		for host, want := range []int64{2, 4, 5, 5} {
			errs := make(chan error)
			for range 3 {
				go func() {
					_, err := get(t, c, fmt.Sprintf("http://h%d.example/", host), nil)
					errs <- err
				}()
			}
			for range 3 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if got := c.open.Load(); got != want {
				t.Errorf("%d connections after host %d, want %d", got, host, want)
			}
		}
		// Of host 1 one is left: its other one went for the last hosts.
		for host, reused := range []bool{false, true, true} {
			if host == 0 {
				continue
			}
			res, err := get(t, c, fmt.Sprintf("http://h%d.example/", host), nil)
			if err != nil || res.reused != reused {
				t.Errorf("host %d: reused %v, %v; want %v", host, res.reused, err, reused)
			}
		}
		c.pool.CloseIdle()
		if got := c.open.Load(); got != 0 {
			t.Errorf("%d connections after all idle ones were closed", got)
		}
	})
}

// TestNothingKeptAfterClose ends a body when its Transport or the pool is closed already.
func TestNothingKeptAfterClose(t *testing.T) {
	for name, end := range map[string]func(*client){
		"transport": func(c *client) { c.Close() },
		"pool":      func(c *client) { c.pool.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			url := listen(t, func(_ int, c net.Conn) {
				readRequest(c)
				_, _ = io.WriteString(c, goodEnd)
				_, _ = c.Read(make([]byte, 1))
			})
			c := newClient(t, PoolOptions{}, Options{})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			end(c)
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Error(err)
			}
			if got := c.open.Load(); got != 0 {
				t.Errorf("%d connections open", got)
			}
		})
	}
}

// TestPoolIsShared: two Transports of one pool never use each other's connections, and one is closed without the other.
func TestPoolIsShared(t *testing.T) {
	url := listen(t, func(_ int, c net.Conn) {
		for readRequest(c) {
			_, _ = io.WriteString(c, goodEnd)
		}
	})
	a := newClient(t, PoolOptions{}, Options{})
	b := newClient(t, PoolOptions{}, Options{})
	b.Transport = New(a.pool, Options{Dial: b.connect})
	for i := range 3 {
		for _, c := range []*client{a, b} {
			if got, err := get(t, c, url, nil); err != nil || got.reused != (i > 0) || c.dials.Load() != 1 {
				t.Errorf("request %d: %+v, %v, %d dials", i, got, err, c.dials.Load())
			}
		}
	}
	a.Close()
	if open := a.open.Load(); open != 0 {
		t.Errorf("%d connections of the closed Transport are open", open)
	}
	if got, err := get(t, b, url, nil); err != nil || !got.reused {
		t.Errorf("the other: %+v, %v; want its connection used again", got, err)
	}
	if got, err := get(t, a, url, nil); err != nil || got.reused || a.open.Load() != 0 {
		t.Errorf("after Close: %+v, %v, %d open; want nothing kept", got, err, a.open.Load())
	}
}
