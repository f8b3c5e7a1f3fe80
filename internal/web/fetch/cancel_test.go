package fetch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCancelAnywhere cancels a call wherever it can wait. It ends at once and by
// its cause, leaves nothing open, and the next call finds everything in order.
func TestCancelAnywhere(t *testing.T) {
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	// deaf reads nothing more, until the client is gone.
	deaf := func(c net.Conn) { _, _ = c.Write([]byte("x")) }
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, text); hang(c) }
	}
	const plain, secure = "http://a.example/", "https://a.example/"
	tests := []struct {
		name    string
		url     string
		serve   func(net.Conn) // what the first connection meets; nil hangs in dialling
		kept    bool           // it has served before
		lookup  bool           // the first lookup hangs
		phase   phase
		started int64
		partial bool // a response comes with the error
	}{
		{name: "looking up", url: plain, lookup: true, phase: phaseConnect},
		{name: "dialling", url: plain, phase: phaseConnect},
		{name: "in the handshake", url: secure, serve: hang, phase: phaseConnect},
		{name: "writing", url: plain, serve: deaf, phase: phaseHeaders, started: 1},
		{name: "in the middle of writing", url: plain, serve: func(c net.Conn) {
			_,
				_ = c.Read(make([]byte, 10))
			deaf(c)
		}, phase: phaseHeaders, started: 1},
		{name: "waiting", url: plain, serve: hang, phase: phaseHeaders, started: 1},
		{name: "writing to a kept connection", url: plain, kept: true, serve: deaf, phase: phaseHeaders, started: 1},
		{name: "waiting at a kept connection", url: plain, kept: true, serve: hang, phase: phaseHeaders, started: 1},
		{name: "in the headers", url: plain, serve: say(okHead), phase: phaseHeaders, started: 1},
		{name: "after an informational answer", url: plain, serve: say("HTTP/1.1 100 Go\r\n\r\n"), phase: phaseHeaders,
			started: 1},
		{name: "in the body", url: plain, serve: say(okHead + "Content-Length: 9\r\n\r\nabc"), phase: phaseBody,
			started: 1, partial: true},
		{name: "between chunks", url: plain, serve: say(okHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
			phase: phaseBody, started: 1, partial: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lookups := 0
				c := newClient(t, Options{
					MinRate: noMinRate, Timeout: time.Hour, HeaderTimeout: time.Hour,
					Resolver: fakeResolver(func(ctx context.Context, _ string) ([]netip.Addr, error) {
						if lookups++; tt.lookup && lookups == 1 {
							<-ctx.Done()
						}
						return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, ctx.Err()
					}),
				})
				var wg sync.WaitGroup
				t.Cleanup(func() { c.closeIdle(); wg.Wait() })
				dials := 0
				c.dialer.guarded = fakeDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					dials++
					bad := dials == 1 && !tt.lookup
					if bad && tt.serve == nil {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					client, server := net.Pipe()
					wg.Go(func() {
						defer server.Close()
						for served := 0; ; served++ {
							if bad && tt.kept == (served == 1) {
								tt.serve(server)
								return
							}
							if !readRequest(server) {
								return
							}
							_, _ = io.WriteString(server, goodEnd)
						}
					})
					return client, nil
				})
				if tt.kept {
					if _, err := get(t, c, tt.url); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				why := errors.New("enough")
				time.AfterFunc(5*time.Second, func() { cancel(why) })
				start, wire := time.Now(), &countingWire{}
				res, err := c.Do(ctx, Request{URL: mustURL(t, tt.url), Wire: wire})
				res.Close()
				e, _ := errors.AsType[*Error](err)
				if e == nil || e.Kind != Canceled || !errors.Is(err, why) || e.Phase != string(tt.phase) ||
					(res != nil) != tt.partial {
					t.Errorf("%+v, %v; want it canceled in the %s", res, err, tt.phase)
				}
				if got := time.Since(start); got != 5*time.Second {
					t.Errorf("ended after %v", got)
				}
				if wire.started.Load() != tt.started {
					t.Errorf("started %d times, want %d", wire.started.Load(), tt.started)
				}
				if conns := c.Stats().Conns; conns != 0 {
					t.Errorf("%d connections open", conns)
				}
				time.Sleep(2 * time.Minute) // a lookup goes on for others
				if res, err := get(t, c, plain); err != nil || string(res.Body) != "good" {
					t.Errorf("next call: %+v, %v", res, err)
				}
			})
		})
	}
}

// TestCanceledBefore sends nothing for a caller who has gone already.
func TestCanceledBefore(t *testing.T) {
	c := newClient(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("crawl over")
	cancel(why)
	wire := &countingWire{}
	_, err := c.Do(ctx, Request{URL: mustURL(t, "http://127.0.0.1:1/"), Wire: wire})
	if KindOf(err) != Canceled || !errors.Is(err, why) || wire.started.Load() != 0 {
		t.Errorf("%v, started %d", err, wire.started.Load())
	}
}

// TestCancelAfterTheBody cancels a call that has given its connection back and is
// not over yet: the next one uses the connection as if nothing had been.
func TestCancelAfterTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8")})
		pipeTo(t, c, func(c net.Conn) {
			for readRequest(c) {
				_, _ = io.WriteString(c, goodEnd)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		first, err := c.Do(ctx, Request{URL: mustURL(t, "http://a.example/"), Mode: Stream})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(first.Reader); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		res, err := get(t, c, "http://a.example/")
		if err != nil || !res.Reused {
			t.Errorf("%+v, %v; want the connection used again", res, err)
		}
		first.Close()
		if res, err := get(t, c, "http://a.example/"); err != nil || !res.Reused {
			t.Errorf("after Close: %+v, %v; want the connection used again", res, err)
		}
	})
}

// TestCancelDoesNotPoison cancels calls at the moment they end, while others use the
// connections that they give back: it must not affect those.
func TestCancelDoesNotPoison(t *testing.T) {
	base := rawServer(t, "text/html", "<p>page")
	c := newClient(t, Options{MaxIdlePerHost: 8})
	u := mustURL(t, base)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				gone := make(chan struct{})
				go func() { defer close(gone); cancel() }()
				res, err := c.Do(ctx, Request{URL: u})
				if kind := KindOf(err); err != nil && kind != Canceled {
					t.Errorf("cancelled call: %v", err)
				}
				res.Close()
				<-gone
			}
		})
		wg.Go(func() {
			for range 300 {
				res, err := c.Do(t.Context(), Request{URL: u})
				if err != nil || string(res.Body) != "<p>page" {
					t.Errorf("bystander: %v", err)
				}
				res.Close()
			}
		})
	}
	wg.Wait()
	c.closeIdle()
	if conns := c.Stats().Conns; conns != 0 {
		t.Errorf("%d connections open", conns)
	}
}

// A countedContext counts who waits for its end.
type countedContext struct {
	context.Context
	done    chan struct{}
	waiting *int
}

func (c countedContext) Done() <-chan struct{} { return c.done }

func (c countedContext) AfterFunc(func()) func() bool {
	*c.waiting++
	return func() bool { *c.waiting--; return true }
}

// Calls of one context wait for its end together, and no goroutine waits when they are over.
func TestCallsShareAWatch(t *testing.T) {
	c, err := New(Options{Resolver: always("8.8.8.8")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waiting := 0
	ctx := countedContext{t.Context(), make(chan struct{}), &waiting}
	for range 3 {
		a, b := c.newCall(ctx, &Request{}), c.newCall(ctx, &Request{})
		if waiting != 1 {
			t.Errorf("%d wait for the end of a context that two calls have", waiting)
		}
		a.end()
		b.end()
		if waiting != 0 {
			t.Errorf("%d wait for the end of a context that no call has", waiting)
		}
	}
}

func TestCallsEndWithTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{Resolver: always("8.8.8.8")})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		why := errors.New("enough")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithCancelCause(t.Context())
		type name struct{}
		same := context.WithValue(ctx, name{}, "x") // ends when ctx does
		other, cancelOther := context.WithCancelCause(t.Context())
		defer cancelOther(nil)
		var ended, under, others []*call
		for i := range 30 {
			k := c.newCall([]context.Context{ctx, same, other}[i%3], &Request{})
			switch {
			case i%3 == 2:
				others = append(others, k)
			case r.IntN(2) == 0:
				ended = append(ended, k)
			default:
				under = append(under, k)
			}
		}
		if n := len(c.watches.of); n != 2 {
			t.Errorf("%d watches of two contexts", n)
		}
		r.Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] })
		for _, k := range ended {
			k.end()
		}
		cancel(why)
		synctest.Wait()
		for _, k := range under {
			if k.cause() != why {
				t.Errorf("a call under way has cause %v", k.cause())
			}
		}
		for _, k := range ended {
			if k.cause() == why {
				t.Error("a call that had ended was cancelled")
			}
		}
		for _, k := range others {
			if k.cause() != nil {
				t.Errorf("a call of another context has cause %v", k.cause())
			}
		}
		late := c.newCall(ctx, &Request{})
		synctest.Wait()
		if late.cause() != why {
			t.Errorf("a call with a context that is over has cause %v", late.cause())
		}
		for _, k := range slices.Concat(under, others, []*call{late}) {
			k.end()
		}
		if n := len(c.watches.of); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}
