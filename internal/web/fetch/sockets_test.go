package fetch

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSocketsAreBounded makes many more requests at once than there may be sockets, of many hosts: never are more open,
// the connections that are idle give way, and every request is answered.
func TestSocketsAreBounded(t *testing.T) {
	const most, hosts = 4, 40
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "page")
	})
	c := newClient(t, Options{MaxSockets: most, MaxInflight: hosts, Resolver: always("127.0.0.1")})
	var open, peak atomic.Int64
	guarded := c.dialer.guarded
	c.dialer.guarded = fakeDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		peak.Store(max(peak.Load(), open.Add(1)))
		conn, err := guarded.DialContext(ctx, "tcp", addr)
		if err != nil {
			open.Add(-1)
			return nil, err
		}
		return &closeFunc{conn, sync.OnceFunc(func() { open.Add(-1); conn.Close() })}, nil
	})
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() {
			res, err := c.Do(t.Context(), Request{URL: mustURL(t, "http://h"+itoa(i)+".example:"+portOf(s.URL)+"/")})
			if err != nil || string(res.Body) != "page" {
				t.Errorf("%+v, %v", res, err)
			}
			res.Close()
		})
	}
	wg.Wait()
	if p := peak.Load(); p > most || c.Stats().Conns > most {
		t.Errorf("%d sockets at once, %d open now; want at most %d", p, c.Stats().Conns, most)
	}
}

// TestNoSocketInTime keeps the only socket busy: a request that waits for it fails by a fault of this machine, not of
// the host.
func TestNoSocketInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{MaxSockets: 1, MaxIdle: 1})
		if err := c.dialer.sockets.take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		defer c.dialer.sockets.release(1)
		_, err := do(t, c, Request{URL: mustURL(t, "http://127.0.0.1:1/"), Timeout: time.Second})
		if KindOf(err) != ConnectError || !IsOurs(err) {
			t.Errorf("%v (%s), ours: %v; want a failure of this machine", err, KindOf(err), IsOurs(err))
		}
	})
}
