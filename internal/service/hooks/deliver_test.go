package hooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memoryStore is a deliveryStore without a disk.
type memoryStore struct {
	mu       sync.Mutex
	jobs     map[string]job
	nextAt   map[string]time.Time // of jobs that are pending
	attempts []attempt
	fail     error // of the next Record
}

func newMemoryStore(jobs ...job) *memoryStore {
	s := &memoryStore{jobs: map[string]job{}, nextAt: map[string]time.Time{}}
	for _, j := range jobs {
		s.jobs[j.ID], s.nextAt[j.ID] = j, time.Now()
	}
	return s
}

func (s *memoryStore) Collect(context.Context) error { return nil }

func (s *memoryStore) Due(_ context.Context, at time.Time, busy, resting []string, most int) (due []job,
	next time.Time, err error) {
	not := slices.Concat(busy, resting)
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.nextAt {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		j, when := s.jobs[id], s.nextAt[id]
		switch {
		case slices.Contains(not, j.Webhook), slices.Contains(not, j.Account):
		case !when.After(at) && len(due) < most:
			due = append(due, j)
			not = append(not, j.Webhook)
		case next.IsZero() || when.Before(next):
			next = when
		}
	}
	return due, next, nil
}

func (s *memoryStore) Record(_ context.Context, a attempt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	s.attempts = append(s.attempts, a)
	j := s.jobs[a.Delivery]
	j.Attempts++
	s.jobs[a.Delivery] = j
	if delete(s.nextAt, a.Delivery); !a.NextAt.IsZero() {
		s.nextAt[a.Delivery] = a.NextAt
	}
	return nil
}

// handlerTransport answers requests by a handler, without a network.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// deliverFor runs a deliverer for some time, whose requests are answered by the handler.
func deliverFor(t *testing.T, s deliveryStore, long time.Duration, handler http.HandlerFunc) {
	t.Helper()
	d := newDeliverer(s, Options{})
	d.sender.guarded = &http.Client{Transport: handlerTransport{handler}}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	d.run(ctx)
}

// A receiver that fails is tried again at longer and longer intervals with the same id, and given up in the end.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(job{ID: "d1", Webhook: "w", URL: "http://hook.test/", Secret: newSecret()})
		start := time.Now()
		var at []time.Duration
		deliverFor(t, s, 7*24*time.Hour, func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Since(start))
			if id := r.Header.Get(headerID); id != "d1" {
				t.Errorf("id %s", id)
			}
			w.WriteHeader(http.StatusBadGateway)
		})
		want, sum := []time.Duration{0}, time.Duration(0)
		for _, d := range delays() {
			sum += d
			want = append(want, sum)
		}
		if !slices.Equal(at, want) || len(at) != len(delays())+1 {
			t.Errorf("attempts after %v, want %v", at, want)
		}
		last := s.attempts[len(s.attempts)-1]
		if !last.NextAt.IsZero() || last.Status != http.StatusBadGateway || last.Error == "" || len(s.nextAt) > 0 {
			t.Errorf("last attempt %+v, pending %v", last, s.nextAt)
		}
	})
}

// A receiver that is gone is asked once a minute in the end, however many events it is to be told of. When it is back,
// or a user asks for an attempt, it is told of all at once.
func TestReceiverThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jobs []job
		for i := range 1000 {
			jobs = append(jobs, job{ID: fmt.Sprint("d", i), Webhook: "gone", URL: "http://gone.test/",
				Secret: newSecret()})
		}
		s := newMemoryStore(append(jobs, job{ID: "e", Webhook: "other", URL: "http://other.test/",
			Secret: newSecret()})...)
		start := time.Now()
		asked, told, back := 0, 0, false
		d := newDeliverer(s, Options{})
		d.sender.guarded = &http.Client{Transport: handlerTransport{http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Host == "other.test" && time.Since(start) > 0:
					t.Errorf("another receiver was told after %v", time.Since(start))
				case r.URL.Host == "other.test":
				case back:
					told++
				default:
					asked++
					w.WriteHeader(http.StatusBadGateway)
				}
			})}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { d.run(ctx); close(ended) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait() // also for an attempt of this very moment
		if asked < 10 || asked > failuresBeforeRest+6+10 {
			t.Errorf("%d attempts in ten minutes", asked)
		}
		back = true
		d.forgive("gone")
		time.Sleep(1000 * attemptGap)
		synctest.Wait()
		if told < 980 { // the others wait for their own times
			t.Errorf("told of %d events when it was back", told)
		}
		if webhooks, _ := d.resting(time.Now()); len(webhooks) > 0 {
			t.Errorf("%q rest", webhooks)
		}
		cancel()
		<-ended
	})
}

// An account with many webhooks and events makes a bounded number of attempts, and delays no other account.
func TestPaceOfAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jobs []job
		for i := range 3000 {
			jobs = append(jobs, job{ID: fmt.Sprint("d", i), Webhook: fmt.Sprint("w", i%50), Account: "a",
				URL: "http://a.test/", Secret: newSecret()})
		}
		s := newMemoryStore(append(jobs, job{ID: "z", Webhook: "b", Account: "b", URL: "http://b.test/",
			Secret: newSecret()})...)
		start, asked := time.Now(), map[string]int{}
		var mu sync.Mutex
		deliverFor(t, s, 20*time.Second, func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if asked[r.URL.Host]++; r.URL.Host == "b.test" && time.Since(start) > 0 {
				t.Errorf("another account was told after %v", time.Since(start))
			}
		})
		want := manyAttempts + int(20*time.Second/attemptGap)
		if got := asked["a.test"]; got < want-10 || got > want+10 || asked["b.test"] != 1 {
			t.Errorf("%d attempts in 20 s, want about %d; %d of another account", got, want, asked["b.test"])
		}
	})
}

// A receiver that does not answer delays its own deliveries only, and each attempt of it ends.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(
			job{ID: "a1", Webhook: "slow", URL: "http://slow.test/", Secret: newSecret()},
			job{ID: "a2", Webhook: "slow", URL: "http://slow.test/", Secret: newSecret()},
			job{ID: "b1", Webhook: "fast", URL: "http://fast.test/", Secret: newSecret()},
			job{ID: "b2", Webhook: "fast", URL: "http://fast.test/", Secret: newSecret()})
		start := time.Now()
		var mu sync.Mutex
		busy := map[string]int{}
		deliverFor(t, s, 3*sendTimeout, func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if busy[r.URL.Host]++; busy[r.URL.Host] > 1 {
				t.Errorf("two deliveries at once to %s", r.URL.Host)
			}
			mu.Unlock()
			if r.URL.Host == "slow.test" {
				<-r.Context().Done()
			} else if since := time.Since(start); since > 0 {
				t.Errorf("%s waited for %v", r.URL.Host, since)
			}
			mu.Lock()
			busy[r.URL.Host]--
			mu.Unlock()
		})
		got := map[string]bool{}
		for _, a := range s.attempts {
			got[a.Delivery] = a.Error == ""
		}
		if !got["b1"] || !got["b2"] || got["a1"] || got["a2"] || len(got) != 4 {
			t.Errorf("delivered %v", got)
		}
	})
}

// An attempt that could not be recorded is made again, and so is one during which the process ends: at least once, with
// the same id.
func TestAtLeastOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(job{ID: "d1", Webhook: "w", URL: "http://hook.test/", Secret: newSecret()})
		sent := 0
		count := func(http.ResponseWriter, *http.Request) { sent++ }
		deliverFor(t, s, time.Second, func(_ http.ResponseWriter, r *http.Request) {
			sent++
			<-r.Context().Done() // ended by deliverFor
		})
		if sent != 1 || len(s.attempts) != 0 {
			t.Fatalf("%d sent, attempts %v", sent, s.attempts)
		}
		s.fail = errors.New("disk full")
		deliverFor(t, s, time.Second, count)
		deliverFor(t, s, time.Second, count)
		if sent != 3 || len(s.attempts) != 1 || s.attempts[0].Error != "" || len(s.nextAt) > 0 {
			t.Errorf("%d sent, attempts %+v", sent, s.attempts)
		}
	})
}
