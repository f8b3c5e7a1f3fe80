package fetch

import (
	"fmt"
	"io"
	"net"
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
		o := Options{
			MaxIdlePerHost: rapid.IntRange(1, 4).Draw(t, "perHost"),
			MaxIdle:        rapid.IntRange(1, 8).Draw(t, "max"),
			IdleTimeout:    time.Hour,
		}
		var handed atomic.Int64
		p := newIdlePool(o, &handed)
		defer p.closeAll(true)
		var model []*directConn // the least recently used first
		var all []*directConn
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c := newDirectConn(&deadConn{}, &deadConn{}, fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "origin")))
				all = append(all, c)
				p.put(c)
				same := 0
				for _, m := range model {
					if m.origin == c.origin {
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
				origin := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "origin"))
				got := p.take(origin)
				for i, m := range slices.Backward(model) {
					if m.origin == origin {
						if got != m {
							t.Fatalf("took another than the newest of %s", origin)
						}
						model = slices.Delete(model, i, i+1)
						all = slices.DeleteFunc(all, func(c *directConn) bool { return c == got })
						return
					}
				}
				if got != nil {
					t.Fatalf("took one of %s where there is none", origin)
				}
			},
			"hand over": func(t *rapid.T) { handed.Store(int64(rapid.IntRange(0, 10).Draw(t, "handed"))) },
			"close":     func(*rapid.T) { p.closeAll(false); model = nil },
			"": func(t *rapid.T) {
				for _, c := range all {
					if kept := slices.Contains(model, c); c.conn.(*deadConn).closed == kept {
						t.Fatalf("a connection of %s is kept: %v, and closed: %v", c.origin, kept, !kept)
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
		c := newClient(t, Options{Resolver: always("8.8.8.8"), IdleTimeout: 30 * time.Second})
		pipeTo(t, c, func(c net.Conn) {
			for readRequest(c) {
				_, _ = io.WriteString(c, goodEnd)
			}
		})
		ask := func(host string) *Response {
			t.Helper()
			res, err := get(t, c, "http://"+host+".example/")
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		open := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := c.Stats().Conns; got != want {
				t.Fatalf("%d connections open, want %d", got, want)
			}
		}
		ask("a") // at 0 s
		time.Sleep(10 * time.Second)
		ask("b") // at 10 s
		time.Sleep(10 * time.Second)
		if !ask("a").Reused { // at 20 s
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
		if c.direct.pool.set {
			t.Error("timer is set for nothing")
		}
		time.Sleep(time.Hour)
		if ask("a").Reused {
			t.Error("a closed connection was used")
		}
		time.Sleep(30 * time.Second)
		open(0)
	})
}

// TestPoolBounds asks several hosts several times at once.
func TestPoolBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8"), MaxIdle: 5, MaxIdlePerHost: 2})
		pipeTo(t, c, func(c net.Conn) {
			for readRequest(c) {
				time.Sleep(time.Second)
				_, _ = io.WriteString(c, goodEnd)
			}
		})
		for host, want := range []int64{2, 4, 5, 5} {
			errs := make(chan error)
			for range 3 {
				go func() {
					res, err := c.Do(t.Context(), Request{URL: mustURL(t, fmt.Sprintf("http://h%d.example/", host))})
					res.Close()
					errs <- err
				}()
			}
			for range 3 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if got := c.Stats().Conns; got != want {
				t.Errorf("%d connections after host %d, want %d", got, host, want)
			}
		}
		// Of host 1 one is left: its other one went for the last hosts.
		for host, reused := range []bool{false, true, true} {
			if host == 0 {
				continue
			}
			res, err := get(t, c, fmt.Sprintf("http://h%d.example/", host))
			if err != nil || res.Reused != reused {
				t.Errorf("host %d: reused %v, %v; want %v", host, res.Reused, err, reused)
			}
		}
		c.closeIdle()
		if got := c.Stats().Conns; got != 0 {
			t.Errorf("%d connections after all idle ones were closed", got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingKeptAfterClose ends a stream when its client is closed already.
func TestNothingKeptAfterClose(t *testing.T) {
	url := listen(t, func(_ int, c net.Conn) {
		readRequest(c)
		_, _ = io.WriteString(c, goodEnd)
		_, _ = c.Read(make([]byte, 1))
	})
	c := newClient(t, Options{})
	res, err := do(t, c, Request{URL: mustURL(t, url), Mode: Stream})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := io.ReadAll(res.Reader); err != nil {
		t.Error(err)
	}
	if got := c.Stats().Conns; got != 0 {
		t.Errorf("%d connections open", got)
	}
}
