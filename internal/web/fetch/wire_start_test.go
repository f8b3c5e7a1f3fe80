package fetch

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/mapwright/mapwright/internal/web/http1"
)

var errNotNow = errors.New("not now")

// An eventLog is what a Wire and a server saw, in order. A request's first byte is read after it is written, so the
// order is certain.
type eventLog struct {
	mu     sync.Mutex
	events []string // guarded by mu
}

func (l *eventLog) add(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
}

// A decidingWire allows or refuses one request.
type decidingWire struct {
	log    *eventLog
	refuse error
}

func (w *decidingWire) Reach(netip.Addr) error { return nil }

func (w *decidingWire) Start() error {
	if w.refuse != nil {
		w.log.add("refused")
		return w.refuse
	}
	w.log.add("allowed")
	return nil
}

// answerNoted answers every request on a connection, and notes the first byte of each, whether more comes after it or
// not.
func answerNoted(conn net.Conn, log *eventLog) {
	for {
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return
		}
		log.add("first byte")
		if !readRequest(conn) {
			return
		}
		_, _ = io.WriteString(conn, goodEnd)
	}
}

// TestStart checks over every kind of connection that the Wire is asked once for each request and before its first
// byte, and that nothing is sent if it refuses: over a new connection, and over a kept one.
func TestStart(t *testing.T) {
	inner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(inner.Close)
	plain := func(c net.Conn) net.Conn { return c }
	secure := func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{Certificates: inner.TLS.Certificates}) }
	secure2 := func(c net.Conn) net.Conn {
		return tls.Server(c, &tls.Config{Certificates: inner.TLS.Certificates, NextProtos: []string{"h2"}})
	}
	tunnelled := func(wrap func(net.Conn) net.Conn) func(net.Conn) net.Conn {
		return func(c net.Conn) net.Conn {
			if !readRequest(c) { // CONNECT, which is the connection's and not the request's
				return c
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
			return wrap(c)
		}
	}
	over := func(below, above func(net.Conn) net.Conn) func(net.Conn) net.Conn {
		return func(c net.Conn) net.Conn { return above(below(c)) }
	}
	for _, tt := range []struct {
		name, scheme string
		proxy        string // its scheme; empty for none
		http2        bool
		wrap         func(net.Conn) net.Conn
	}{
		{"HTTP/1", "http", "", false, plain},
		{"HTTP/1 over TLS", "https", "", false, secure},
		{"HTTP/2", "https", "", true, secure2},
		{"HTTP/1 to a proxy", "http", "http", false, plain},
		{"HTTP/1 to a proxy over TLS", "http", "https", false, secure},
		{"HTTP/1 behind a proxy", "https", "http", false, tunnelled(secure)},
		{"HTTP/2 behind a proxy", "https", "http", true, tunnelled(secure2)},
		{"HTTP/1 behind a proxy over TLS", "https", "https", false, over(secure, tunnelled(secure))},
		{"HTTP/2 behind a proxy over TLS", "https", "https", true, over(secure, tunnelled(secure2))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log eventLog
			want := []string{"refused", "allowed", "first byte", "refused", "refused", "allowed", "first byte"}
			t.Cleanup(func() { // when the server has read everything
				if !slices.Equal(log.events, want) {
					t.Errorf("events %q, want %q", log.events, want)
				}
			})
			at := listen(t, func(_ int, raw net.Conn) {
				conn := tt.wrap(raw)
				if !tt.http2 {
					answerNoted(conn, &log)
					return
				}
				serveFrames(conn, func(f *http2.Framer, stream uint32) error {
					log.add("first byte")
					return writeEmptyPage(f, stream)
				})
			})
			o := Options{RootCAs: poolOf(inner), NoHTTP2: !tt.http2}
			to := tt.scheme + strings.TrimPrefix(at, "http")
			if tt.proxy != "" {
				proxy, err := url.Parse(tt.proxy + strings.TrimPrefix(at, "http"))
				if err != nil {
					t.Fatal(err)
				}
				o.Proxy, to = proxy, tt.scheme+"://example.com/"
			}
			c := newClient(t, o)
			for i, refuse := range []error{errNotNow, nil, errNotNow, errNotNow, nil} {
				_, err := do(t, c, Request{URL: mustURL(t, to), Wire: &decidingWire{&log, refuse}})
				if !errors.Is(err, refuse) {
					t.Errorf("request %d: error %v, want %v", i+1, err, refuse)
				}
				if refuse != nil && (KindOf(err) != Canceled || IsOurs(err) || IsDropped(err) ||
					!strings.Contains(err.Error(), "request not sent: not now")) {
					t.Errorf("request %d: error %v, want it canceled, and no failure of the host", i+1, err)
				}
			}
			byHTTP1 := !tt.http2 && (tt.proxy == "" || tt.scheme == "https")
			if dials := c.Stats().Dials; byHTTP1 && dials != 1 {
				t.Errorf("%d dials, want a refusal to leave the connection as it was", dials)
			}
			awaitConns(c, 0)
		})
	}
}

// TestStartOfAnotherConnection: if net/http takes another connection after one to which nothing was written, the Wire
// is asked again. It is not asked about a request that was written, which is not sent again.
func TestStartOfAnotherConnection(t *testing.T) {
	c := newClient(t, Options{})
	conn := func() httptrace.GotConnInfo {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		return httptrace.GotConnInfo{Conn: ours}
	}
	isClosed := func(info httptrace.GotConnInfo) bool {
		return errors.Is(info.Conn.SetDeadline(time.Time{}), io.ErrClosedPipe)
	}
	newCall := func(wire Wire) *call {
		k := c.newCall(t.Context(), &Request{Wire: wire})
		t.Cleanup(k.end)
		return k
	}

	var log eventLog
	wire := &decidingWire{log: &log}
	k := newCall(wire)
	first, second := conn(), conn()
	k.onNetHTTPConn(first)
	k.onNetHTTPConn(second)
	if k.cause() != nil || isClosed(first) || isClosed(second) {
		t.Errorf("nothing was written: the call ended with %v", k.cause())
	}
	wire.refuse = errNotNow
	third := conn()
	k.onNetHTTPConn(third)
	if !errors.Is(k.cause(), errNotNow) || !isClosed(third) {
		t.Errorf("refused: the call ended with %v, connection closed: %v", k.cause(), isClosed(third))
	}
	k.onNetHTTPConn(conn()) // the call is over: there is nothing to ask

	k = newCall(&decidingWire{log: &log})
	k.onNetHTTPConn(conn())
	k.Wrote()
	again := conn()
	k.onNetHTTPConn(again)
	if k.cause() != http1.ErrDropped || !isClosed(again) {
		t.Errorf("written: the call ended with %v, connection closed: %v", k.cause(), isClosed(again))
	}
	if want := []string{"allowed", "allowed", "refused", "allowed"}; !slices.Equal(log.events, want) {
		t.Errorf("events %q, want %q", log.events, want)
	}
}
