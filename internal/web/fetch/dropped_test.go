package fetch

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestDroppedIsNotSentAgain lets a server close a kept connection when the next request arrives on it: the request
// reaches the server once, the error is Dropped, and another attempt over a new connection succeeds. It holds without
// and behind a proxy, and where net/http keeps the connections to the proxy.
func TestDroppedIsNotSentAgain(t *testing.T) {
	inner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(inner.Close)
	secure := func(c net.Conn) net.Conn { return tls.Server(c, &tls.Config{Certificates: inner.TLS.Certificates}) }
	plain := func(c net.Conn) net.Conn { return c }
	tunnelled := func(c net.Conn) net.Conn {
		if !readRequest(c) { // CONNECT
			return c
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
		return secure(c)
	}
	tunnelledTLS := func(c net.Conn) net.Conn { return tunnelled(secure(c)) }
	none := func(net.Conn, net.Conn) {}
	resets := func(raw, _ net.Conn) { reset(raw) }
	ends := func(_, conn net.Conn) { conn.Close() }
	for _, tt := range []struct {
		name, scheme string
		proxy        string // its scheme; empty for none
		wrap         func(net.Conn) net.Conn
		drop         func(raw, conn net.Conn)
	}{
		{"end", "http", "", plain, none},
		{"reset", "http", "", plain, resets},
		{"reset under TLS", "https", "", secure, resets},
		{"end of TLS", "https", "", secure, ends},
		{"end under TLS", "https", "", secure, none},
		{"end of a proxy", "http", "http", plain, none},
		{"reset of a proxy", "http", "http", plain, resets},
		{"reset behind a proxy", "https", "http", tunnelled, resets},
		{"end of TLS behind a proxy", "https", "http", tunnelled, ends},
		{"end under TLS behind a proxy", "https", "http", tunnelled, none},
		{"reset behind a proxy over TLS", "https", "https", tunnelledTLS, resets},
		{"end of TLS behind a proxy over TLS", "https", "https", tunnelledTLS, ends},
		{"end under TLS behind a proxy over TLS", "https", "https", tunnelledTLS, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests, drops atomic.Int64
			at := listen(t, func(_ int, raw net.Conn) {
				conn := tt.wrap(raw)
				for served := 0; readRequest(conn); served++ {
					requests.Add(1)
					if served == 1 && drops.Add(1) <= 2 {
						tt.drop(raw, conn)
						return
					}
					_, _ = io.WriteString(conn, goodEnd)
				}
			})
			o := Options{RootCAs: poolOf(inner), NoHTTP2: true}
			to := tt.scheme + strings.TrimPrefix(at, "http")
			if tt.proxy != "" {
				proxy, err := url.Parse(tt.proxy + strings.TrimPrefix(at, "http"))
				if err != nil {
					t.Fatal(err)
				}
				o.Proxy, to = proxy, tt.scheme+"://example.com/"
			}
			c := newClient(t, o)
			for i, want := range []struct{ dropped, newConn bool }{{false, false}, {true, false}, {false, true},
				{true, false}, {false, true}, {false, false}} {
				wire := &countingWire{}
				_, err := do(t, c, Request{URL: mustURL(t, to), Wire: wire, NewConn: want.newConn})
				if IsDropped(err) != want.dropped || (err == nil) == want.dropped || want.dropped &&
					KindOf(err) != ReadError {
					t.Fatalf("request %d: error %v, want dropped: %v", i+1, err, want.dropped)
				}
				if n := wire.started.Load(); n != 1 || requests.Load() != int64(i+1) {
					t.Fatalf("request %d: started %d times, the server has had %d requests", i+1, n, requests.Load())
				}
			}
		})
	}
}

// TestUnaskedAnswer lets a server send a second answer after the first: it must not be taken for the answer of the next
// request.
func TestUnaskedAnswer(t *testing.T) {
	const page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n"
	sent, answered := make(chan struct{}), make(chan struct{})
	at := listen(t, func(n int, conn net.Conn) {
		for i := 0; readRequest(conn); i++ {
			if _, err := io.WriteString(conn, page+"good"); err != nil {
				return
			}
			if n == 1 && i == 0 {
				<-answered
				_, _ = io.WriteString(conn, page+"evil")
				close(sent)
			}
		}
	})
	c := newClient(t, Options{})
	for i := range 2 {
		res, err := do(t, c, Request{URL: mustURL(t, at)})
		if err != nil || string(res.Body) != "good" || res.Reused {
			t.Errorf("request %d: %+v, %v", i+1, res, err)
		}
		if i == 0 {
			close(answered)
			<-sent
		}
	}
}

// TestRefusedStreamIsNotSentAgain lets an HTTP/2 server refuse every stream after the first, and say goodbye to others:
// net/http would send each request again.
func TestRefusedStreamIsNotSentAgain(t *testing.T) {
	inner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(inner.Close)
	for name, refuse := range map[string]func(f *http2.Framer, stream uint32) error{
		"refused stream": func(f *http2.Framer, stream uint32) error {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		},
		"goaway": func(f *http2.Framer, stream uint32) error { return f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			at := listen(t, func(_ int, raw net.Conn) {
				conn := tls.Server(raw, &tls.Config{Certificates: inner.TLS.Certificates, NextProtos: []string{"h2"}})
				serveFrames(conn, func(f *http2.Framer, stream uint32) error {
					requests.Add(1)
					if stream == 1 {
						return writeEmptyPage(f, stream)
					}
					return refuse(f, stream)
				})
			})
			c := newClient(t, Options{RootCAs: poolOf(inner)})
			to := mustURL(t, "https"+strings.TrimPrefix(at, "http"))
			for i, dropped := range []bool{false, true} {
				wire := &countingWire{}
				_, err := do(t, c, Request{URL: to, Wire: wire})
				if IsDropped(err) != dropped || (err == nil) == dropped {
					t.Errorf("request %d: error %v, want dropped: %v", i+1, err, dropped)
				}
				if n := wire.started.Load(); n != 1 || requests.Load() != int64(i+1) {
					t.Errorf("request %d: started %d times, the server has had %d requests", i+1, n, requests.Load())
				}
			}
			awaitConns(c, 0)
		})
	}
}

// serveFrames reads HTTP/2 frames from a connection until it ends, and calls a function for each request.
func serveFrames(conn net.Conn, request func(f *http2.Framer, stream uint32) error) {
	in := bufio.NewReader(conn)
	if _, err := in.Discard(len(http2.ClientPreface)); err != nil {
		return
	}
	f := http2.NewFramer(conn, in)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			err = request(f, frame.StreamID)
		}
		if err != nil {
			return
		}
	}
}

func writeEmptyPage(f *http2.Framer, stream uint32) error {
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, h := range []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "text/html"}} {
		if err := enc.WriteField(h); err != nil {
			return err
		}
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(block.String()),
		EndHeaders: true, EndStream: true})
}
