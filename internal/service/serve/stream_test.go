package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// bubbleStream runs a test in a bubble, with a server and a connection on which an event stream was asked for.
func bubbleStream(t *testing.T, test func(t *testing.T, s *Server, key service.Key, conn net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		svc, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), RecordsOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Service: svc})
		if err != nil {
			t.Fatal(err)
		}
		key, err := svc.Accounts.CreateKey(t.Context(), &service.Caller{System: "test",
			Scopes: []service.Scope{service.ScopeAdmin}}, service.Key{Scopes: []service.Scope{service.ScopeRead}})
		if err != nil {
			t.Fatal(err)
		}
		p, h, ended := &pipes{make(chan net.Conn), make(chan struct{})}, s.HTTP(), make(chan error)
		go func() { ended <- h.Serve(p) }()
		conn := p.dial()
		if _, err := fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
			key.Secret); err != nil {
			t.Fatal(err)
		}
		test(t, s, key, conn)
		err = errors.Join(conn.Close(), h.Close())
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			t.Error(end)
		}
		synctest.Wait()
		if err := errors.Join(err, svc.Close()); err != nil {
			t.Error(err)
		}
	})
}

// A stream on which nothing happens has a heartbeat every 15 seconds, and ends within two seconds when its key is
// revoked.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	bubbleStream(t, func(t *testing.T, s *Server, key service.Key, conn net.Conn) {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v, %v", res, err)
		}
		began, lines := time.Now(), bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != "" { // where the stream begins
		}
		for beat := 1; beat <= 3; beat++ {
			if !lines.Scan() || strings.TrimSpace(lines.Text()) != ":" || !lines.Scan() || lines.Text() != "" {
				t.Fatalf("beat %d is %q, %v", beat, lines.Text(), lines.Err())
			}
			if at := time.Since(began); at != time.Duration(beat)*15*time.Second {
				t.Errorf("beat %d comes after %s", beat, at)
			}
		}
		if err := s.Service.Accounts.RevokeKey(t.Context(), &service.Caller{System: "test",
			Scopes: []service.Scope{service.ScopeAdmin}}, "", key.ID); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 ||
			time.Since(began) > 47*time.Second {
			t.Errorf("after the key was revoked: %q, %v, after %s", rest, err, time.Since(began))
		}
	})
}

// A HEAD request of a stream is answered, and not held.
func TestHeadOfAStream(t *testing.T) {
	t.Parallel()
	bubbleStream(t, func(t *testing.T, s *Server, key service.Key, _ net.Conn) {
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodHead, "http://localhost/v1/events?since=0", nil)
		r.Header.Set("Authorization", "Bearer "+key.Secret)
		w := httptest.NewRecorder()
		began := time.Now()
		s.HTTP().Handler.ServeHTTP(w, r)
		if w.Code != 200 || w.Header().Get("Content-Type") != eventKind || time.Since(began) > 0 {
			t.Errorf("%d, %q, after %v", w.Code, w.Header(), time.Since(began))
		}
		if n := s.streams.count(); n != 1 {
			t.Errorf("%d streams, want the other one", n)
		}
	})
}

// A client that does not read its stream is left, and costs nothing from then on.
func TestStreamThatIsNotRead(t *testing.T) {
	t.Parallel()
	bubbleStream(t, func(t *testing.T, s *Server, _ service.Key, _ net.Conn) {
		synctest.Wait()
		if n := s.streams.count(); n != 1 {
			t.Fatalf("%d streams", n)
		}
		time.Sleep(heartbeat + eventTime + time.Second)
		synctest.Wait()
		if n := s.streams.count(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// One account cannot take all streams.
func TestStreamsOfOneAccount(t *testing.T) {
	t.Parallel()
	s := newStreams(&Server{Options: Options{Connections: DefaultConnections}})
	open := func(owner string) (n int) {
		for n < 2*mostStreams && s.add(&stream{owner: owner}) {
			n++
		}
		return n
	}
	for i, want := range []int{250, 250, 250, 250, 0} {
		if n := open(fmt.Sprint(i)); n != want {
			t.Errorf("account %d has %d streams, want %d", i, n, want)
		}
	}
}

// The event streams of an account read one after the other, however many there are, so that they leave the readers of
// the database to others. A stream that waits for its turn gets its events then.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	bubbleStream(t, func(t *testing.T, s *Server, key service.Key, conn net.Conn) {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v, %v", res, err)
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != "" { // where the stream begins
		}
		synctest.Wait() // it has read what there is
		account, err := s.Service.Accounts.Get(t.Context(), service.DefaultAccount)
		if err != nil {
			t.Fatal(err)
		}
		end, ok := s.limits.reading.enter(t.Context(), account.ID)
		if !ok {
			t.Fatal("a stream that has nothing to read holds the turn")
		}
		admin := &service.Caller{Account: account, System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
		if _, err := s.Service.Crawls.Submit(t.Context(), admin, service.Submission{
			StartURLs: []string{"http://example.test/"}}, ""); err != nil {
			t.Fatal(err)
		}
		began, got := time.Now(), make(chan string)
		go func() {
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "event:") {
			}
			got <- lines.Text()
		}()
		const held = 2*turnTime + time.Second
		time.AfterFunc(held, end)
		if text := <-got; !strings.Contains(text, string(service.CrawlQueued)) || time.Since(began) != held {
			t.Errorf("%q after %s, want the event after %s", text, time.Since(began), held)
		}
	})
}
