package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// health asks for /healthz by a new connection and returns the status.
func health(p *pipes, address string) (int, error) {
	conn := p.dialFrom(address)
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// Whatever clients send or do not send, and wherever they are, another client is answered.
func TestConnectionsThatWait(t *testing.T) {
	t.Parallel()
	const most = 40
	const (
		form = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
		long = "Transfer-Encoding: chunked\r\n\r\n4\r\nkey="
	)
	for name, sends := range map[string]string{
		"nothing": "", "half a head": "GET /healthz HTT", "no body": form + "Content-Length: 900\r\n\r\n",
		"half a body":            form + long,
		"a body that is refused": "PUT /v1/plans/x HTTP/1.1\r\nHost: localhost\r\n" + long,
		"a body at no address":   "GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n",
		"a body of another host": "POST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 7\r\n\r\n",
		"a request and no more":  "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"no wish for the answer": "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		for where, address := range map[string]func(i int) string{
			"one address":    func(i int) string { return fmt.Sprintf("192.0.2.1:%d", i+1) },
			"one network":    func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) },
			"many addresses": func(i int) string { return fmt.Sprintf("198.51.100.%d:1", i%200) },
			"a proxy":        func(i int) string { return fmt.Sprintf("10.0.0.1:%d", i+1) },
		} {
			t.Run(name+" from "+where, func(t *testing.T) {
				o := Options{Connections: most, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}}
				withOptions(t, o, func(t *testing.T, _ *Server, p *pipes) {
					for i := range 4 * most {
						conn := p.dialFrom(address(i))
						defer conn.Close()
						go func() { _, _ = io.WriteString(conn, sends) }() // it may be closed before
						if i%most == most-1 {
							time.Sleep(time.Second) // the bubble's: requests arrive and are refused meanwhile
						}
					}
					for _, from := range []string{address(0), "203.0.113.9:1"} {
						began := time.Now()
						if status, err := health(p, from); status != http.StatusOK {
							t.Errorf("a client at %s: status %d, %v", from, status, err)
						}
						if took := time.Since(began); took >= time.Second {
							t.Errorf("a client at %s waited %s", from, took)
						}
					}
				})
			})
		}
	}
}

// Connections are closed in the order of their wait, of the client that has the most of them, and never while a request
// is answered. A client has its share even if others have none.
func TestWhichConnectionIsClosed(t *testing.T) {
	t.Parallel()
	withOptions(t, Options{Connections: 16}, func(t *testing.T, s *Server, p *pipes) {
		release := make(chan struct{})
		s.pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			connectionOf(r.Context()).pause() // as all do that wait
			<-release
		})
		var mu sync.Mutex
		var closed, answered []string // guarded by mu
		open := func(name, address, sends string) {
			conn := p.dialFrom(address)
			go func() {
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					closed = append(closed, name)
				} else if answered = append(answered, name); res.StatusCode != http.StatusOK {
					t.Errorf("%s: status %d", name, res.StatusCode)
				}
				_ = conn.Close() // it may be closed already
			}()
			if _, err := io.WriteString(conn, sends); err != nil && sends != "" {
				t.Error(err)
			}
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		const request, half = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /healthz HTTP/1.1\r\nX: "
		open("answered", "192.0.2.1:1", request)
		open("first of two", "192.0.2.2:1", half)
		open("second of two", "192.0.2.2:2", "")
		for i := range 5 { // the share of a client is four
			open(fmt.Sprint(i+1, " of four"), "192.0.2.4:1", half)
		}
		for i := range 14 {
			open(fmt.Sprint("alone ", i), fmt.Sprintf("192.0.2.%d:1", 10+i), request)
		}
		open("one more", "192.0.2.30:1", request)
		open("too many", "192.0.2.31:1", "")
		want := []string{"1 of four", "2 of four", "3 of four", "first of two", "4 of four", "second of two",
			"5 of four", "too many"}
		if !slices.Equal(closed, want) || len(answered) > 0 {
			t.Errorf("closed: %q, answered: %q", closed, answered)
		}
		close(release)
		synctest.Wait()
		if len(answered) != 16 || len(closed) != len(want) {
			t.Errorf("answered: %q, closed %q", answered, closed)
		}
	})
}

// A refused request whose body does not come is answered at once, and its connection is closed. If the body comes, the
// connection can be used again.
func TestRefusedBodies(t *testing.T) {
	t.Parallel()
	const head = "POST /v1/crawls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		name, sends string
		closed      bool
	}{
		{"whole", head + "Content-Length: 2\r\n\r\n{}", false},
		{"whole in chunks", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", false},
		{"missing", head + "Content-Length: 2\r\n\r\n", true},
		{"missing and large", head + "Content-Length: 2000000\r\n\r\n{", true},
		{"without end", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", true},
		{"not asked for", head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *Server, p *pipes) {
				conn, began := p.dial(), time.Now()
				defer conn.Close()
				if _, err := io.WriteString(conn, c.sends); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(conn)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != http.StatusUnauthorized || res.Close != c.closed ||
					time.Since(began) >= time.Second {
					t.Errorf("status %d, close %v, after %s", res.StatusCode, res.Close, time.Since(began))
				}
				if c.closed {
					if _, err := in.ReadByte(); err != io.EOF || time.Since(began) >= 2*time.Second {
						t.Errorf("%v after %s", err, time.Since(began))
					}
					return
				}
				if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("the next request: %v", err)
				}
			})
		})
	}
}

// A body that comes slowly but steadily arrives, however long it takes. One that comes still slower does not. The
// deadline of a body does not end an answer that takes longer.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	for rate, arrives := range map[int]bool{bodyRate + 1<<10: true, bodyRate / 2: false} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, p *pipes) {
				s.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
						http.Error(w, err.Error(), http.StatusRequestTimeout)
						return
					}
					time.Sleep(answerTime / 2)
					if err := context.Cause(r.Context()); err != nil {
						http.Error(w, err.Error(), http.StatusInternalServerError)
					}
				})
				conn, sent := p.dial(), make(chan struct{})
				go func() {
					defer close(sent)
					_, err := fmt.Fprintf(conn,
						"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size)
					for left := size; left > 0 && err == nil; left -= rate {
						time.Sleep(time.Second)
						_, err = io.WriteString(conn, strings.Repeat("x", min(rate, left)))
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if arrives != (err == nil && res.StatusCode == http.StatusOK) {
					t.Errorf("%v, %v", res, err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				<-sent
			})
		})
	}
}
