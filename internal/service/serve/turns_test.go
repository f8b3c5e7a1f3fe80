package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// Clients have their turns in rounds, and no client has more than its part. A request that gives up leaves no gap.
func TestRounds(t *testing.T) {
	t.Parallel()
	var busy []bool
	all := turns{most: 3, each: 2, waiting: 4, busy: func(is bool) { busy = append(busy, is) }}
	var asked []*turn
	for _, client := range []string{"a", "a", "a", "a", "a", "a", "b", "b", "c", "c"} {
		asked = append(asked, all.ask(client))
	}
	if all.ask("a") != nil {
		t.Error("more requests of a client wait than may")
	}
	had := map[*turn]bool{}
	come := func() (names []string) {
		for _, one := range asked {
			select {
			case <-one.come:
				if !had[one] && !one.ended {
					names = append(names, one.of.name)
				}
				had[one] = true
			default:
			}
		}
		return names
	}
	if got := come(); !slices.Equal(got, []string{"a", "a", "b"}) {
		t.Errorf("%q have the first turns", got)
	}
	asked[2].end() // while it waits
	for i, want := range []string{"b", "c", "a", "c", "a", "a"} {
		for _, one := range asked {
			if had[one] && !one.ended {
				one.end()
				one.end()
				break
			}
		}
		if got := come(); len(got) != 1 || got[0] != want {
			t.Errorf("turn %d goes to %q, want %s", i, got, want)
		}
	}
	for _, one := range asked {
		one.end()
	}
	if all.all.taken != 0 || len(all.all.below) != 0 || all.all.round.Len() != 0 {
		t.Errorf("%d turns of %d clients have not ended", all.all.taken, len(all.all.below))
	}
	if !slices.Equal(busy, []bool{true, false}) {
		t.Errorf("busy: %v", busy)
	}
}

// The networks of a client have its turns in rounds. A client with many networks has no more turns than another.
func TestRoundsOfNetworks(t *testing.T) {
	t.Parallel()
	all := turns{most: 1, each: 1, waiting: 9}
	var asked []*turn
	for _, client := range []string{"a1x", "a1x", "a1y", "a1z", "a2x", "a2x", "b1x", "b1x"} {
		asked = append(asked, all.ask(strings.Split(client, "")...))
	}
	var got []string
	for range asked {
		for _, one := range asked {
			if one.waits == nil && !one.ended {
				got = append(got, one.of.in.in.name+one.of.in.name+one.of.name)
				one.end()
				break
			}
		}
	}
	if want := []string{"a1x", "b1x", "a1x", "b1x", "a2x", "a1y", "a2x", "a1z"}; !slices.Equal(got, want) {
		t.Errorf("turns in the order %q, want %q", got, want)
	}
	if all.all.taken != 0 || len(all.all.below) != 0 || all.all.round.Len() != 0 {
		t.Errorf("%d turns of %d clients have not ended", all.all.taken, len(all.all.below))
	}
}

// A network of a client leaves turns for the others of the client, whoever waits first.
func TestTurnsWithinAClient(t *testing.T) {
	t.Parallel()
	all := turns{each: 3, within: 2, waiting: 9}
	var asked []*turn
	got := func() (names string) {
		for _, one := range asked {
			if one.waits == nil && !one.ended {
				names += one.of.in.name + one.of.name + " "
			}
		}
		return names
	}
	for _, c := range []struct{ ask, want string }{
		{"ax", "ax "}, {"ax", "ax ax "}, {"ax", "ax ax "}, {"bx", "ax ax bx "}, {"ay", "ax ax bx ay "},
		{"ay", "ax ax bx ay "}, {"ax", "ax ax bx ay "},
	} {
		asked = append(asked, all.ask(strings.Split(c.ask, "")...))
		if now := got(); now != c.want {
			t.Errorf("after %s: %s; want %s", c.ask, now, c.want)
		}
	}
	for i, want := range []string{"ax bx ay ay ", "ax bx ay ay ", "ax bx ay ax "} {
		asked[[]int{0, 1, 4}[i]].end()
		if now := got(); now != want {
			t.Errorf("after %d ends: %s; want %s", i+1, now, want)
		}
	}
	for _, one := range asked {
		one.end()
	}
	if all.all.taken != 0 || len(all.all.below) != 0 || all.all.round.Len() != 0 {
		t.Errorf("%d turns of %d clients have not ended", all.all.taken, len(all.all.below))
	}
}

const slowPage = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"

// Requests without a key are computed a few at once, from one address or many, and others are answered meanwhile.
func TestStrangersHaveTurns(t *testing.T) {
	t.Parallel()
	withOptions(t, Options{Connections: 400}, func(t *testing.T, s *Server, p *pipes) {
		release := make(chan struct{})
		var computed atomic.Int32
		s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			computed.Add(1)
			<-release
		})
		const first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		for i := range 90 {
			conn := p.dialFrom(fmt.Sprintf("192.0.2.1:%d", i+1))
			defer conn.Close()
			if _, err := io.WriteString(conn, first+strings.Repeat(slowPage, 2)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
		synctest.Wait()
		each := int32(turnsAtOnce() / 2)
		if n := computed.Load(); n != each {
			t.Errorf("%d requests of one client are computed at once, want %d", n, each)
		}
		if status, err := health(p, "203.0.113.9:1"); status != http.StatusOK {
			t.Errorf("another client: status %d, %v", status, err)
		}
		close(release)
		synctest.Wait()
		if n := computed.Load(); n != 180 {
			t.Errorf("%d requests are computed in the end, want all", n)
		}
	})
}

// A request that comes in several steps waits for one round of turns, and not for one with each step. The time for its
// head does not run meanwhile.
func TestStepsOfARequest(t *testing.T) {
	t.Parallel()
	const round = 3 * headerTime
	inBubble(t, func(t *testing.T, s *Server, p *pipes) {
		s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }) // in the turn
		for i := range turnsAtOnce() * int(round/time.Second) {
			conn := p.dialFrom(fmt.Sprintf("198.51.%d.%d:1", i/200, i%200))
			defer conn.Close()
			if _, err := io.WriteString(conn, strings.Repeat(slowPage, mostStrange)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
		synctest.Wait() // all turns are taken
		conn, began := p.dialFrom("203.0.113.9:1"), time.Now()
		defer conn.Close()
		for _, step := range []string{"GET /healthz ", "HTTP/1.1\r\nHost: ", "localhost\r\n\r\n"} {
			if _, err := io.WriteString(conn, step); err != nil { // it waits until the server reads
				t.Fatal(err)
			}
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		if took := time.Since(began); took < headerTime || took > round+round/2 {
			t.Errorf("the answer came after %s, want a round of %s", took, round)
		}
	})
}

// answersOf sends a text by a new connection, reads the answers until the server closes it, and returns how many there
// are and whether the last one says that the connection is closed.
func answersOf(t *testing.T, p *pipes, text string) (n int, last bool) {
	t.Helper()
	conn := p.dial()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // the rest is not read
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return n, last
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		n, last = n+1, res.Close
	}
}

// A connection is closed after some requests without a valid key. What the client sent beyond them is not computed.
func TestStrangersAreLeft(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"a page": slowPage, "no address": "GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"health": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"login":  "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a body": "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"no key": "GET /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, p *pipes) {
				var computed atomic.Int32
				s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { computed.Add(1) })
				if n, last := answersOf(t, p, strings.Repeat(request, 3*mostStrange)); n != mostStrange || !last {
					t.Errorf("%d answers, want %d; the last one closes: %v", n, mostStrange, last)
				}
				if n := computed.Load(); n > mostStrange {
					t.Errorf("%d requests are computed", n)
				}
			})
		})
	}
}

// While there is no room, and for a moment after it, a connection is closed after one answer: others may wait to be
// accepted though there is room at this instant.
func TestStrangersAreLeftWhenFull(t *testing.T) {
	t.Parallel()
	const most = 8
	const requests = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	withOptions(t, Options{Connections: most}, func(t *testing.T, _ *Server, p *pipes) {
		check := func(when string, want int) {
			t.Helper()
			if n, last := answersOf(t, p, requests); n != want || last != (want == 1) {
				t.Errorf("%s: %d answers, want %d; the last one closes: %v", when, n, want, last)
			}
		}
		check("before", 2)
		var idle []net.Conn
		for i := range most {
			idle = append(idle, p.dialFrom(fmt.Sprintf("198.51.100.%d:1", i)))
		}
		synctest.Wait()
		check("full", 1)
		for _, conn := range idle {
			_ = conn.Close() // it may be closed already
		}
		synctest.Wait()
		check("after it", 1)
		time.Sleep(fullFor)
		check("later", 2)
	})
}

// A key over a connection whose last request had a valid one is looked up before those of others that wait.
func TestKnownClientsAreLookedUpFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		_, secret := newAccount("a", service.ScopeRead)
		serveIn(t, s, func(p *pipes) {
			conn := p.dial()
			defer conn.Close()
			answers := bufio.NewReader(conn)
			me := func() int {
				_, err := io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+secret+
					"\r\n\r\n")
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				return res.StatusCode
			}
			if status := me(); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
			var others []*turn
			for i := range mostLookups + 100 {
				others = append(others, s.limits.lookups.ask(fmt.Sprint(i)))
			}
			go func() {
				synctest.Wait()
				others[0].end() // one turn is free
			}()
			if status := me(); status != http.StatusOK {
				t.Errorf("beside others that wait: status %d", status)
			}
			for _, one := range others {
				one.end()
			}
		})
	})
}

// A valid key keeps a connection, and is looked up while keys of others wait for it. Those have no turn meanwhile.
func TestKnownClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		_, secret := newAccount("a", service.ScopeRead)
		serveIn(t, s, func(p *pipes) {
			strange := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
			known := "GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret + "\r\n\r\n"
			text := strings.Repeat(strings.Repeat(strange, mostStrange-1)+known, 3)
			text += strings.Repeat(known, 2*mostStrange) + strings.Repeat(strange, mostStrange)
			if n, last := answersOf(t, p, text); n != 6*mostStrange || !last {
				t.Errorf("%d answers; the last one closes: %v", n, last)
			}

			var ends []func()
			for i := range mostLookups { // keys of others are looked up
				end, ok := s.limits.lookups.enter(t.Context(), fmt.Sprint(i))
				if !ok {
					t.Fatal("no turn")
				}
				ends = append(ends, end)
			}
			var conns []io.Closer
			for i := range 50 {
				conn := p.dialFrom(fmt.Sprintf("192.0.2.1:%d", i+1))
				conns = append(conns, conn)
				if _, err := io.WriteString(conn, strings.Replace(known, secret, "mw_x_x", 1)); err != nil {
					t.Fatal(err)
				}
			}
			answers := make(chan int)
			go func() {
				n, _ := answersOf(t, p, strings.Replace(known, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
				answers <- n
			}()
			synctest.Wait()
			if status, err := health(p, "192.0.2.1:99"); status != http.StatusOK {
				t.Errorf("the same client while its keys are looked up: status %d, %v", status, err)
			}
			for _, end := range ends {
				end()
			}
			if n := <-answers; n != 1 {
				t.Errorf("%d answers to a valid key", n)
			}
			for _, conn := range conns {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	})
}
