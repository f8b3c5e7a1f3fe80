package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// A key gets its rate, and others are not affected.
func TestRateOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimits(10, 1)
		taken := 0
		for range 100 {
			if _, ok := l.keys.take("a"); ok {
				taken++
			}
		}
		if taken != 20 {
			t.Errorf("%d requests at once, want twice the rate", taken)
		}
		if wait, ok := l.keys.take("a"); ok || wait != 100*time.Millisecond {
			t.Errorf("wait %s", wait)
		}
		if _, ok := l.keys.take("b"); !ok {
			t.Error("another key has to wait")
		}
		time.Sleep(time.Second)
		for taken = 0; ; taken++ {
			if _, ok := l.keys.take("a"); !ok {
				break
			}
		}
		if taken != 10 {
			t.Errorf("%d requests after a second, want 10", taken)
		}
	})
}

// The keys of an account have a rate together, however many there are. Without a limit there is none.
func TestRateOfAnAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for perKey, want := range map[float64]int{10: 2 * keysOfAccount * 10, -1: 400} {
			s := &Server{limits: newRateLimits(perKey, 1)}
			taken := 0
			for range 400 {
				if _, ok := s.limits.accounts.take("a"); ok {
					taken++
				}
			}
			if taken != want {
				t.Errorf("rate %v: %d requests at once, want %d", perKey, taken, want)
			}
			if _, ok := s.limits.accounts.take("b"); !ok {
				t.Error("another account has to wait")
			}
		}
	})
}

// Any number of names takes a bounded number of limiters.
func TestLimitersAreBounded(t *testing.T) {
	t.Parallel()
	l := newRateLimits(0, 1)
	for i := range 3 * mostLimiters {
		l.keys.take(strconv.Itoa(i))
	}
	if n := len(l.keys.all); n > mostLimiters {
		t.Errorf("%d limiters", n)
	}
}

// Requests of one account whose bodies do not arrive, or whose answers are not read, take a bounded number of turns, and
// those of one key leave some for other keys. The others of the account wait for a bounded time, those of another account
// do not wait, and streams keep no turn.
func TestRequestsUnderWay(t *testing.T) {
	t.Parallel()
	bubbleStream(t, func(t *testing.T, s *Server, key service.Key, _ net.Conn) {
		synctest.Wait()        // the stream has begun
		const mostWaiting = 64 // fewer than the rate limit allows at once
		s.limits.underway.waiting = mostWaiting
		admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
		if _, err := s.Service.Accounts.Create(t.Context(), admin, service.Account{Name: "other"}); err != nil {
			t.Fatal(err)
		}
		other, err := s.Service.Accounts.CreateKey(t.Context(), admin, service.Key{Account: "other"})
		if err != nil {
			t.Fatal(err)
		}
		var asking sync.WaitGroup
		var bodies []*io.PipeWriter
		hold := func(requests int) {
			writer, err := s.Service.Accounts.CreateKey(t.Context(), admin, service.Key{})
			if err != nil {
				t.Fatal(err)
			}
			for range requests {
				body, w := io.Pipe()
				bodies = append(bodies, w)
				asking.Go(func() {
					ask(s, "POST", "/v1/crawls", func(r *http.Request) {
						r.Header.Set("Authorization", "Bearer "+writer.Secret)
						r.Header.Set("Content-Type", "application/json")
						r.Body = body
					})
				})
			}
			synctest.Wait() // all of them wait for their bodies, or for a turn
		}
		me := func(secret string) int {
			return ask(s, "GET", "/v1/me", func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+secret)
			}).Code
		}
		hold(mostUnderway)
		if code := me(key.Secret); code != http.StatusOK {
			t.Errorf("another key of the account gets %d", code)
		}
		time.Sleep(turnTime)
		hold(mostUnderway - mostUnderwayOfKey)
		var refused, answered atomic.Int32
		for range mostWaiting + 10 {
			asking.Go(func() {
				if me(key.Secret) == http.StatusTooManyRequests {
					refused.Add(1)
				} else {
					answered.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 10 {
			t.Errorf("%d requests are refused at once, want those after %d", n, mostWaiting)
		}
		if code := me(other.Secret); code != http.StatusOK {
			t.Errorf("another account gets %d", code)
		}
		time.Sleep(turnTime)
		synctest.Wait()
		if n := refused.Load(); n != mostWaiting+10 || answered.Load() != 0 {
			t.Errorf("%d requests are refused after %s", n, turnTime)
		}
		asking.Go(func() {
			if code := me(key.Secret); code != http.StatusOK {
				t.Errorf("a request after one that ended gets %d", code)
			}
		})
		synctest.Wait()
		for _, body := range bodies {
			if err := body.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		asking.Wait()
	})
}

// limitedServer makes a server. newAccount makes an account with a key of one scope, and returns the account's id and
// the key.
func limitedServer(t *testing.T) (s *Server, newAccount func(name string, scope service.Scope) (id, key string)) {
	svc, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), RecordsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	if s, err = New(Options{Service: svc, Schedules: schedules.New(svc, nil)}); err != nil {
		t.Fatal(err)
	}
	admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
	return s, func(name string, scope service.Scope) (id, key string) {
		account, err := svc.Accounts.Create(t.Context(), admin, service.Account{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		made, err := svc.Accounts.CreateKey(t.Context(), admin, service.Key{Account: name,
			Scopes: []service.Scope{scope}})
		if err != nil {
			t.Fatal(err)
		}
		return account.ID, made.Secret
	}
}

// The changes that an account makes are bounded in the long run, because each of them leaves entries in the database.
// Reading is not bounded by that, other accounts are not, and neither are admins.
func TestRateOfChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		secrets := map[string]string{}
		for name, scope := range map[string]service.Scope{"a": service.ScopeWrite, "b": service.ScopeWrite,
			"c": service.ScopeAdmin} {
			var account string
			account, secrets[name] = newAccount(name, scope)
			for name != "b" {
				if _, ok := s.limits.changes.take(account); !ok {
					break
				}
			}
		}
		code := func(method, name string) int {
			return ask(s, method, "/v1/crawls", func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+secrets[name])
			}).Code
		}
		for _, c := range []struct {
			method, name string
			want         int
		}{{"POST", "a", http.StatusTooManyRequests}, {"GET", "a", http.StatusOK},
			{"POST", "b", http.StatusUnsupportedMediaType}, {"POST", "c", http.StatusUnsupportedMediaType}} {
			if got := code(c.method, c.name); got != c.want {
				t.Errorf("%s of %s: %d, want %d", c.method, c.name, got, c.want)
			}
		}
		time.Sleep(time.Second)
		if got := code("POST", "a"); got != http.StatusUnsupportedMediaType {
			t.Errorf("a change after a second: %d", got)
		}
		// A run of a schedule is a change too.
		time.Sleep(2 * changesBurst * time.Second)
		account, err := s.Service.Accounts.Get(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		every := "1m"
		if _, err := s.Schedules.Create(t.Context(), &service.Caller{Account: account, System: "test",
			Scopes: []service.Scope{service.ScopeWrite}}, schedules.Input{Interval: &every,
			Submission: &service.Submission{StartURLs: []string{"https://example.com/"}}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second/2)
		defer cancel()
		s.Schedules.Run(ctx)
		if now := time.Now(); s.limits.changes.of(account.ID, now).TokensAt(now) >= changesBurst {
			t.Error("a run of a schedule is not counted among the changes of its account")
		}
	})
}

// Logins by a key count as changes of its account, wherever they come from. Others behind the same address do not keep
// anybody out by requests without a valid key, however many they make.
func TestRateOfLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		account, secret := newAccount("a", service.ScopeWrite)
		login := func(address, form string) int {
			return ask(s, "POST", "/login", func(r *http.Request) {
				r.RemoteAddr = address
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Body = io.NopCloser(strings.NewReader(form))
			}).Code
		}
		secret = "key=" + secret
		if got := login("192.0.2.1:1", secret); got != http.StatusSeeOther {
			t.Errorf("the first login: %d", got)
		}
		for ok := true; ok; {
			_, ok = s.limits.changes.take(account)
		}
		if got := login("192.0.2.2:1", secret); got != http.StatusTooManyRequests {
			t.Errorf("a login when the account has made all its changes: %d", got)
		}
		time.Sleep(time.Second)
		if got := login("192.0.2.3:1", secret); got != http.StatusSeeOther {
			t.Errorf("a login after a second: %d", got)
		}
		token, err := s.Service.Accounts.NewLogin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const address = "192.0.2.4:1"
		wrong := secret[:len(secret)-1] + "-"
		for range 200 {
			for _, form := range []string{"", wrong, "token=nonsense"} {
				if got := login(address, form); got != http.StatusUnauthorized {
					t.Fatalf("a login by %q: %d", form, got)
				}
			}
			got := ask(s, "GET", "/", func(r *http.Request) { r.RemoteAddr = address })
			if got.Code != http.StatusSeeOther {
				t.Fatalf("a page without a session: %d", got.Code)
			}
		}
		time.Sleep(time.Second)
		for _, form := range []string{secret, "token=" + token} {
			if got := login(address, form); got != http.StatusSeeOther {
				t.Errorf("a login by %q behind an address of many that are not valid: %d", form, got)
			}
		}
		if got := login(address, "token="+token); got != http.StatusUnauthorized {
			t.Errorf("a login by a link that is used up: %d", got)
		}
	})
}

// Keys that may only read log in and out as often as they may. The write key of their account still makes changes, and
// revokes them.
func TestReadKeysStopNoChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, newAccount := limitedServer(t)
		const some = 3
		s.limits.changes.burst = some
		_, write := newAccount("a", service.ScopeWrite)
		admin := &service.Caller{System: "test", Scopes: []service.Scope{service.ScopeAdmin}}
		var readers []service.Key
		for range 2 {
			key, err := s.Service.Accounts.CreateKey(t.Context(), admin, service.Key{Account: "a",
				Scopes: []service.Scope{service.ScopeRead}})
			if err != nil {
				t.Fatal(err)
			}
			readers = append(readers, key)
		}
		by := func(secret, method, path string) int {
			return ask(s, method, path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }).Code
		}
		login := func(secret string) int {
			return ask(s, "POST", "/login", func(r *http.Request) {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Body = io.NopCloser(strings.NewReader("key=" + secret))
			}).Code
		}
		for i := range some {
			if i%2 == 0 {
				if got := login(readers[0].Secret); got != http.StatusSeeOther {
					t.Errorf("login %d: %d", i, got)
				}
			} else if got := by(readers[0].Secret, "POST", "/logout"); got >= http.StatusBadRequest {
				t.Errorf("logout %d: %d", i, got)
			}
		}
		for i, key := range readers {
			if got := login(key.Secret); got != http.StatusTooManyRequests {
				t.Errorf("one login too many, by reader %d: %d", i, got)
			}
		}
		if got := by(write, "POST", "/v1/crawls"); got != http.StatusUnsupportedMediaType {
			t.Errorf("a change by the write key: %d", got)
		}
		for i, key := range readers {
			if got := by(write, "DELETE", "/v1/keys/"+key.ID); got != http.StatusNoContent {
				t.Errorf("the revocation of reader %d: %d", i, got)
			}
		}
		if got := by(write, "POST", "/v1/crawls"); got != http.StatusTooManyRequests {
			t.Errorf("one change too many, by the write key: %d", got)
		}
	})
}

// Files that are sent hold connections for as long as their clients like: an account has few at once.
func TestFilesSentAtOnce(t *testing.T) {
	t.Parallel()
	s := &Server{limits: newRateLimits(0, 5*shareOfFiles)}
	path := filepath.Join(t.TempDir(), "sitemap.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(account string) (*httptest.ResponseRecorder, error) {
		w := httptest.NewRecorder()
		c := &call{Server: s, w: w, r: httptest.NewRequest("GET", "/", nil), ctx: t.Context(), endTurn: func() {},
			caller: &service.Caller{Account: service.Account{ID: account}}}
		return w, c.sendFile(&service.Crawl{}, path, linesKind)
	}
	var ends []func()
	for range 5 {
		end, ok := s.limits.sending.enter(t.Context(), "a")
		if !ok {
			t.Fatal("not as many as may be")
		}
		ends = append(ends, end)
	}
	w, err := send("a")
	refusal, ok := errors.AsType[*service.Error](err)
	if !ok || refusal.Code != service.ErrRateLimit || w.Header().Get("Retry-After") == "" ||
		w.Header().Get("ETag") != "" {
		t.Errorf("one too many: %v, header %v", err, w.Header())
	}
	if w, err := send("b"); err != nil || w.Body.String() != "{}\n" {
		t.Errorf("another account gets %q, %v", w.Body, err)
	}
	ends[0]()
	for range 2 { // each ends its own
		if w, err := send("a"); err != nil || w.Body.String() != "{}\n" {
			t.Errorf("after one has been sent: %q, %v", w.Body, err)
		}
	}
}
