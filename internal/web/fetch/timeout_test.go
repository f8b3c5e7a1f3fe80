package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimeouts lets each phase hang in turn and measures when it is given up.
func TestTimeouts(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	drip := func(every time.Duration, chunk string) func(net.Conn) {
		return func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, head)
			for {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
				time.Sleep(every)
			}
		}
	}
	tests := []struct {
		name  string
		opts  Options
		req   Request
		serve func(net.Conn) // nil does not even connect
		phase phase
		after time.Duration
	}{
		{name: "connect", phase: phaseConnect, after: 10 * time.Second},
		{name: "whole, connect", req: Request{Timeout: 3 * time.Second}, phase: phaseConnect, after: 3 * time.Second},
		{name: "headers", serve: hang, phase: phaseHeaders, after: 15 * time.Second},
		{name: "headers after a slow connection of the client's choice", opts: Options{HeaderTimeout: 2 * time.Second},
			serve: hang, phase: phaseHeaders, after: 2 * time.Second},
		{name: "whole", opts: Options{HeaderTimeout: time.Hour}, serve: hang, phase: phaseHeaders,
			after: 20 * time.Second},
		{name: "whole of the request", req: Request{Timeout: 3 * time.Second}, serve: hang, phase: phaseHeaders,
			after: 3 * time.Second},
		{name: "body hangs", serve: func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, head); hang(c) },
			phase: phaseBody, after: 5 * time.Second},
		{name: "body drips", serve: drip(time.Second, "x"), phase: phaseBody, after: 5 * time.Second},
		{name: "body slow but well over the floor", serve: drip(time.Second, strings.Repeat("x", 2048)),
			phase: phaseBody, after: 20 * time.Second},
		{name: "no floor", opts: Options{MinRate: noMinRate}, serve: drip(time.Second, "x"), phase: phaseBody,
			after: 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.opts.Resolver = always("8.8.8.8")
				c := newClient(t, tt.opts)
				if tt.serve != nil {
					pipeTo(t, c, tt.serve)
				} else {
					c.dialer.guarded = fakeDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					})
				}
				start := time.Now()
				tt.req.URL = mustURL(t, "http://slow.example/")
				_, err := do(t, c, tt.req)
				e, _ := errors.AsType[*Error](err)
				if e == nil || e.Kind != Timeout || e.Phase != string(tt.phase) || e.Ours {
					t.Fatalf("error %v, want a timeout of the %s", err, tt.phase)
				}
				if got := time.Since(start); got != tt.after {
					t.Errorf("given up after %v, want %v", got, tt.after)
				}
			})
		})
	}
}

// TestTLSTimeout hangs in the handshake.
func TestTLSTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8")})
		pipeTo(t, c, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		start := time.Now()
		_, err := get(t, c, "https://slow.example/")
		if KindOf(err) != Timeout || time.Since(start) != tlsTimeout {
			t.Errorf("%v after %v, want a timeout after 10s", err, time.Since(start))
		}
		_, err = do(t, c, Request{URL: mustURL(t, "https://slow.example/"), Timeout: 3 * time.Second})
		if e, _ := errors.AsType[*Error](err); e == nil || e.Kind != Timeout || e.Phase != string(phaseTLS) {
			t.Errorf("%v, want a timeout of TLS", err)
		}
	})
}

// TestSlowReaderIsNotASlowHost reads a stream more slowly than the floor asks of
// the host, and then meets a host that is slow itself.
func TestSlowReaderIsNotASlowHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8")})
		body := strings.Repeat("x", 64<<10)
		pipeTo(t, c, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+body)
			_, _ = io.Copy(io.Discard, c)
		})
		res, err := do(t, c, Request{URL: mustURL(t, "http://a.example/"), Mode: Stream, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1024)
		for range 64 {
			time.Sleep(7 * time.Second)
			if _, err := io.ReadFull(res.Reader, p); err != nil {
				t.Fatalf("read: %v", err)
			}
		}
		start := time.Now()
		if _, err := res.Reader.Read(p); KindOf(err) != Timeout {
			t.Fatalf("read of a silent host: %v, want a timeout", err)
		}
		if got := time.Since(start); got > 2*rateWindow {
			t.Errorf("given up after %v", got)
		}
	})
}

// TestSlowConnectionDoesNotShortenHeaders spends most of a header time-out on
// connecting: the time-out begins with the request.
func TestSlowConnectionDoesNotShortenHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8"), HeaderTimeout: 6 * time.Second})
		c.dialer.guarded = fakeDialer(func(context.Context, string) (net.Conn, error) {
			time.Sleep(5 * time.Second)
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				readRequest(server)
				time.Sleep(5 * time.Second)
				_, _ = io.WriteString(server, "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")
			}()
			return client, nil
		})
		res, err := get(t, c, "http://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		if want := (Timings{Connect: 5 * time.Second, Wait: 5 * time.Second,
			Total: 10 * time.Second}); res.Timings != want {
			t.Errorf("timings %+v, want %+v", res.Timings, want)
		}
	})
}

// TestLargeBodiesTakeTurns checks that a body over 1 MiB waits for another one to
// be closed, that waiting is not held against the host, and that it ends.
func TestLargeBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8"), MaxMemory: 1})
		pipeTo(t, c, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"+strings.Repeat("x", 2<<20))
		})
		first, err := get(t, c, "http://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(12*time.Second, first.Close)
		start := time.Now()
		second, err := get(t, c, "http://b.example/")
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 12*time.Second {
			t.Errorf("second body after %v, want 12s", got)
		}
		defer second.Close()
		start = time.Now()
		if _, err := get(t, c, "http://c.example/"); KindOf(err) != Timeout || time.Since(start) != 20*time.Second {
			t.Errorf("third body: %v after %v, want a timeout", err, time.Since(start))
		}
	})
}

// TestReservedMemory checks that what a caller needs for a page it has read is charged like a large body: one page at a
// time may exceed the budget, others wait until it is closed.
func TestReservedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: always("8.8.8.8"), MaxMemory: 10})
		pipeTo(t, c, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\nx")
		})
		var all []*Response
		for _, host := range []string{"a", "b", "c"} {
			res, err := get(t, c, "http://"+host+".example/")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Close()
			all = append(all, res)
		}
		for range 2 {
			if err := all[0].Reserve(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
		closed := make(chan struct{})
		time.AfterFunc(12*time.Second, func() {
			all[0].Close()
			close(closed)
		})
		start := time.Now()
		if err := all[1].Reserve(t.Context(), 100); err != nil || time.Since(start) != 12*time.Second {
			t.Errorf("reserved after %v, want 12s, error %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := all[2].Reserve(ctx, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reserved beside the second: error %v", err)
		}
		<-closed
		for _, res := range all {
			res.Close()
		}
		if free := c.buffers.budget.free; free != 10 {
			t.Errorf("%d bytes are free in the end, want 10", free)
		}
	})
}

// TestLargeBodiesOfOtherClients lets two Clients hold as much memory as they get, for hosts that do not go on. The
// large pages of a third one are read at once all the same, several of them together.
func TestLargeBodiesOfOtherClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := newClient(t, Options{Resolver: always("8.8.8.8"), MaxMemory: 256 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			slow := clientFor(t, base, Options{Timeout: time.Hour, MinRate: noMinRate})
			pipeTo(t, slow, func(c net.Conn) {
				readRequest(c)
				// A window of 16 MiB, of which no byte follows.
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n\xcf\xff\xff\xff")
				_, _ = io.Copy(io.Discard, c)
			})
			for i := range 20 {
				go func() {
					res, _ := slow.Do(ctx, Request{URL: mustURL(t, fmt.Sprintf("http://h%d.example/", i)), Mode: Stream})
					<-ctx.Done()
					res.Close()
				}()
			}
			synctest.Wait()
		}
		quick := clientFor(t, base, Options{})
		pipeTo(t, quick, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"+strings.Repeat("x", 2<<20))
		})
		start := time.Now()
		for i := range 3 { // each is held until the test ends
			if _, err := get(t, quick, fmt.Sprintf("http://p%d.example/", i)); err != nil || time.Since(start) > 0 {
				t.Errorf("page %d after %v: %v", i, time.Since(start), err)
			}
		}
		cancel()
		synctest.Wait()
	})
}
