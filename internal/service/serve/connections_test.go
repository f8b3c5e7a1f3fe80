package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
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
							time.Sleep(2 * stalledAfter) // the bubble's: requests arrive and are refused meanwhile
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

// The connections that are closed are the oldest of the client that has the most, and never those whose request is
// answered. A client has its share even if others have none. If all are being answered, new ones wait.
func TestWhichConnectionIsClosed(t *testing.T) {
	t.Parallel()
	withOptions(t, Options{Connections: 16}, func(t *testing.T, s *Server, p *pipes) {
		release := make(chan struct{})
		s.pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			connectionOf(r.Context()).pause() // as all do that wait
			<-release
		})
		ends := &connectionEnds{p: p}
		const request, half = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /healthz HTTP/1.1\r\nX: "
		ends.open("answered", "192.0.2.1:1", request)
		ends.open("first of two", "192.0.2.2:1", half)
		ends.open("second of two", "192.0.2.2:2", "")
		for i := range 5 { // the share of a client is four
			ends.open(fmt.Sprint(i+1, " of four"), "192.0.2.4:1", half)
		}
		for i := range 14 {
			ends.open(fmt.Sprint("alone ", i), fmt.Sprintf("192.0.2.%d:1", 10+i), request)
		}
		time.Sleep(2 * roundTrip) // the bubble's: the last one is let in, and what was closed for it is noted
		ends.open("one more", "192.0.2.30:1", request)
		ends.open("too many", "192.0.2.31:1", request)
		want := []string{"1 of four", "2 of four", "3 of four", "first of two", "4 of four", "second of two",
			"5 of four"}
		if closed, answered := ends.read(); !slices.Equal(closed, want) || len(answered) > 0 {
			t.Errorf("closed: %q, answered: %q", closed, answered)
		}
		close(release)
		synctest.Wait()
		if closed, answered := ends.read(); len(answered) != 17 || len(closed) != len(want) {
			t.Errorf("answered: %q, closed %q", answered, closed)
		}
	})
}

// A client that has its share of connections, all of them being answered, gets room from an answer that it does not take,
// but not from one that was only just sent.
func TestShareOfAnswersUnderWay(t *testing.T) {
	t.Parallel()
	withOptions(t, Options{Connections: 8}, func(t *testing.T, s *Server, p *pipes) {
		release := make(chan struct{})
		s.pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connectionOf(r.Context()).pause() // as all do that wait
			if r.URL.Path == "/sent" {
				_ = http.NewResponseController(w).Flush() // waits for the client
			}
			<-release
		})
		const client = "192.0.2.1:1"
		sent := p.dialFrom(client) // the share of a client is two
		defer sent.Close()
		if _, err := io.WriteString(sent, "GET /sent HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		ends := &connectionEnds{p: p}
		const request = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
		ends.open("answered", client, request)
		ends.open("too early", client, request)
		if closed, _ := ends.read(); !slices.Equal(closed, []string{"too early"}) {
			t.Errorf("closed: %q", closed)
		}
		time.Sleep(roundTrip) // the bubble's
		ends.open("later", client, request)
		close(release)
		synctest.Wait()
		if _, answered := ends.read(); !slices.Contains(answered, "answered") || !slices.Contains(answered, "later") {
			t.Errorf("answered: %q", answered)
		}
		if _, err := sent.Read(make([]byte, 1)); err == nil {
			t.Error("the connection whose answer is not taken is still open")
		}
	})
}

// While many requests wait, those with long heads and without a key are not read: they take longer than others.
func TestLongHeadsInACrowd(t *testing.T) {
	t.Parallel()
	long := func(n int) string {
		return "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", n/6) + "\r\n"
	}
	withOptions(t, Options{Connections: 1000}, func(t *testing.T, s *Server, p *pipes) {
		s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }) // in the turn
		ends := &connectionEnds{p: p}
		for i := range 2 * crowd {
			ends.open(fmt.Sprint("one of many ", i), fmt.Sprintf("198.51.100.%d:1", i), slowPage)
			if i == turnsAtOnce() { // they wait for turns, and the others come meanwhile
				ends.open("long", "192.0.2.1:1", long(2*longHead))
				ends.open("short", "192.0.2.2:1", long(longHead/2))
			}
		}
		time.Sleep(2 * crowd * time.Second) // the bubble's
		if closed, _ := ends.read(); !slices.Equal(closed, []string{"long"}) {
			t.Errorf("closed: %q", closed)
		}
		ends.open("later", "192.0.2.3:1", long(3*longHead))
		ends.open("later again", "192.0.2.1:1", strings.Repeat(long(longHead/2), 5))
		closed, answered := ends.read()
		if len(closed) > 1 || !slices.Contains(answered, "short") || !slices.Contains(answered, "later") ||
			!slices.Contains(answered, "later again") {
			t.Errorf("closed: %q, answered: %q", closed, answered)
		}
	})
}

// connectionEnds opens connections, and notes which of them are answered and which are closed without an answer.
type connectionEnds struct {
	p *pipes

	mu               sync.Mutex
	closed, answered []string // guarded by mu
}

func (e *connectionEnds) open(name, address, sends string) {
	conn := e.p.dialFrom(address)
	go func() { _, _ = io.WriteString(conn, sends) }() // it may be closed before
	go func() {
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		_ = conn.Close() // it may be closed already
		e.mu.Lock()
		defer e.mu.Unlock()
		if err != nil {
			e.closed = append(e.closed, name)
		} else {
			e.answered = append(e.answered, name)
		}
	}()
	synctest.Wait()
}

func (e *connectionEnds) read() (closed, answered []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.closed), slices.Clone(e.answered)
}

// Requests that are here wait for their turns as long as it takes, and no others are accepted meanwhile: each client of
// more than there is room for is answered.
func TestTurnsForMoreClientsThanRoom(t *testing.T) {
	t.Parallel()
	const most = 12
	for name, sends := range map[string]string{
		"one request": slowPage, "several": strings.Repeat(slowPage, 3),
		"a body": "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			withOptions(t, Options{Connections: most}, func(t *testing.T, s *Server, p *pipes) {
				s.pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					time.Sleep(time.Second) // in the turn
				})
				ends := &connectionEnds{p: p}
				for i := range 5 * most {
					ends.open(fmt.Sprint(i), fmt.Sprintf("198.51.100.%d:1", i), sends)
				}
				time.Sleep(5 * most * time.Second) // the bubble's
				synctest.Wait()
				if closed, answered := ends.read(); len(answered) != 5*most || len(closed) > 0 {
					t.Errorf("answered: %q, closed: %q", answered, closed)
				}
			})
		})
	}
}

// A client that goes on with its request, some time after each step, is answered among more clients than there is room
// for which do not.
func TestClientThatIsFarAway(t *testing.T) {
	t.Parallel()
	const most, far = 12, 50 * time.Millisecond
	const head = "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
	withOptions(t, Options{Connections: most}, func(t *testing.T, s *Server, p *pipes) {
		s.pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond) // in the turn
			_, _ = io.Copy(io.Discard, r.Body)
		})
		over := make(chan struct{})
		var floods sync.WaitGroup
		for i := range 5 * most {
			floods.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					conn := p.dialFrom(fmt.Sprintf("198.51.100.%d:1", i))
					go func() { _, _ = io.WriteString(conn, head) }() // it may be closed before
					stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
					go func() {
						<-over
						_ = conn.Close()
					}()
					_, _ = io.Copy(io.Discard, conn)
					stop()
					_ = conn.Close()
				}
			})
		}
		time.Sleep(5 * time.Second) // the bubble's
		for range 5 {
			conn := p.dialFrom("203.0.113.9:1")
			time.Sleep(far)
			go func() { _, _ = io.WriteString(conn, head) }()
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if err == nil && res.StatusCode == http.StatusContinue {
				time.Sleep(far)
				go func() { _, _ = io.WriteString(conn, "{}") }()
				res, err = http.ReadResponse(in, nil)
			}
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("no answer: %v", err)
			}
			_ = conn.Close()
		}
		close(over)
		floods.Wait()
	})
}

// Clients whose requests come in many pieces, so that each waits for a turn most of the time, do not keep others out.
func TestRequestsInPieces(t *testing.T) {
	t.Parallel()
	const most, pieces, turn = 12, 200, 100 * time.Millisecond
	round := 5 * most * usualSteps * turn / time.Duration(turnsAtOnce())
	for name, head := range map[string]string{
		"a body": "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
		"chunks": "POST /slow HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			withOptions(t, Options{Connections: most}, func(t *testing.T, s *Server, p *pipes) {
				s.pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					for err := error(nil); err == nil; _, err = r.Body.Read(make([]byte, 1)) {
						time.Sleep(turn)
					}
				})
				over := make(chan struct{})
				var floods sync.WaitGroup
				for i := range 5 * most {
					floods.Go(func() {
						for isOver := false; !isOver; {
							conn := p.dialFrom(fmt.Sprintf("198.51.100.%d:1", i))
							_, err := io.WriteString(conn, head)
							for range pieces {
								select {
								case <-over:
									isOver = true
								case <-time.After(50 * time.Millisecond):
								}
								if err != nil || isOver {
									break
								}
								_, err = io.WriteString(conn, "1\r\nx\r\n")
							}
							_ = conn.Close()
						}
					})
				}
				time.Sleep(5 * time.Second) // the bubble's
				for range 5 {
					began := time.Now()
					conn := p.dialFrom("203.0.113.9:1")
					go func() { _, _ = io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
					_, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if took := time.Since(began); err != nil || took > 2*round {
						t.Errorf("answered after %s, and a round takes %s: %v", took, round, err)
					}
					_ = conn.Close()
				}
				close(over)
				floods.Wait()
			})
		})
	}
}

// The networks of one IPv6 customer are one client: neither its connections nor its turns keep others out. Each of its
// networks has its part.
func TestNetworksOfOneCustomer(t *testing.T) {
	t.Parallel()
	withOptions(t, Options{Connections: 40}, func(t *testing.T, s *Server, p *pipes) {
		s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }) // in the turn
		ends := &connectionEnds{p: p}
		for i := range 200 { // five customers, who fill all room; each network has one connection
			network := fmt.Sprintf("2001:db8:%x:%x", i%5, i<<4)
			ends.open("flood", "["+network+"::1]:1", slowPage)
		}
		began := time.Now()
		if status, err := health(p, "[2001:db8:ffff::1]:1"); status != http.StatusOK {
			t.Errorf("another customer: status %d, %v", status, err)
		}
		if status, err := health(p, "203.0.113.9:1"); status != http.StatusOK {
			t.Errorf("another client: status %d, %v", status, err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("two clients waited %s for their turns among five", took)
		}
		time.Sleep(time.Minute) // the bubble's
	})
}

// Connections whose last request had a valid key stay while others come and go, unless they are more than half.
func TestKnownConnectionsStay(t *testing.T) {
	t.Parallel()
	const most = 16
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		s.Connections = most
		_, secret := newAccount("a", service.ScopeRead)
		known := "GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret + "\r\n\r\n"
		serveIn(t, s, func(p *pipes) {
			var kept []net.Conn
			ask := func(conn net.Conn) bool {
				go func() { _, _ = io.WriteString(conn, known) }()
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					return false
				}
				_, err = io.Copy(io.Discard, res.Body)
				return err == nil && res.StatusCode == http.StatusOK
			}
			for i := range most { // four of each client
				kept = append(kept, p.dialFrom(fmt.Sprintf("192.0.2.%d:%d", i/4, i+1)))
				if !ask(kept[i]) {
					t.Fatal("no answer to a valid key")
				}
			}
			for i := range 10 * most {
				conn := p.dialFrom(fmt.Sprintf("198.51.100.%d:1", i))
				defer conn.Close()
				synctest.Wait()
			}
			stay := 0
			for _, conn := range kept {
				if ask(conn) {
					stay++
				}
				_ = conn.Close() // it may be closed already
			}
			if stay != most/2 {
				t.Errorf("%d connections with a valid key stay, want %d", stay, most/2)
			}
		})
	})
}

// The first connection is the oldest one of the network with the most, in each step, whatever was added and removed.
func TestFirstClosable(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var all closable
	var in []*connection
	for number := range 20_000 {
		if random.IntN(100) < 50+30*(number/1000%2)-15 {
			c := &connection{since: number, here: random.IntN(2) == 0, client: clientOf(netip.AddrFrom16([16]byte{
				0x20, 1, 5: byte(random.IntN(3)), 6: byte(random.IntN(3)), 7: byte(random.IntN(3))}))}
			all.add(c)
			in = append(in, c)
		} else if len(in) > 0 {
			i := random.IntN(len(in))
			in[i].closable.remove()
			in = slices.Delete(in, i, i+1)
		}
		if got, want := all.first(), firstOf(in, 0); got != want {
			t.Fatalf("step %d: first is %v, want %v", number, got, want)
		}
	}
	for _, c := range in {
		c.closable.remove()
	}
	if all.n != 0 || len(all.below) != 0 || len(all.order) != 0 {
		t.Errorf("%d connections are left, and %d clients", all.n, len(all.below))
	}
}

// firstOf finds the first connection by looking at all of them.
func firstOf(in []*connection, level int) (first *connection) {
	if len(in) == 0 {
		return nil
	}
	if level == len(in[0].client) {
		return slices.MinFunc(in, func(c, d *connection) int {
			if c.here != d.here {
				return map[bool]int{false: -1, true: 1}[c.here]
			}
			return c.since - d.since
		})
	}
	networks := map[string][]*connection{}
	for _, c := range in {
		networks[c.client[level]] = append(networks[c.client[level]], c)
	}
	most := 0
	for _, members := range networks {
		one := firstOf(members, level+1)
		if len(members) > most || len(members) == most && one.since < first.since {
			first, most = one, len(members)
		}
	}
	return first
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
