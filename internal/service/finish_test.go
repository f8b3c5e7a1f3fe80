package service

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/internal/test/testweb"
)

// gate holds the crawls of a service while they open their stores: a crawl that only has to write its files keeps its
// slot then until open is called.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // guarded by mu; nil if the gate is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed = nil
}

// freeBytes is Options.FreeBytes of a service in a directory.
func (g *gate) freeBytes(service string) func(string) (int64, error) {
	return func(dir string) (int64, error) {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if dir != service && closed != nil {
			<-closed
		}
		return 4 << 30, nil
	}
}

// queueTest is a service in a bubble whose crawls of a web of one slow host have names.
type queueTest struct {
	*testService
	gate  gate
	web   *testweb.Server
	o     Options
	names map[string]string // of crawls, by id
}

func newQueueTest(t *testing.T, maxCrawls int) *queueTest {
	t.Helper()
	web, base, client := startWebInBubble(t, testweb.Config{Hosts: 1, Pages: 8})
	q := &queueTest{web: web, names: map[string]string{}}
	dir := t.TempDir()
	q.o = Options{Dir: dir, SlotDir: t.TempDir() + "/slot", Base: base, Fetcher: client, MaxCrawls: maxCrawls,
		MinFree: leastFree, FreeBytes: q.gate.freeBytes(dir)}
	q.testService = openService(t, q.o)
	return q
}

// restart ends the service with notice, and opens it again. The gate is open when it has ended.
func (q *queueTest) restart() {
	q.t.Helper()
	ended := make(chan struct{})
	go func() {
		q.end()
		close(ended)
	}()
	synctest.Wait()
	q.gate.open()
	<-ended
	q.testService = openService(q.t, q.o)
}

// submit submits a crawl with a name.
func (q *queueTest) submit(as *Caller, name string, settings ...string) string {
	q.t.Helper()
	id := q.testService.submit(as, q.web.StartURLs()[0], append(settings, "seeding_strategy", `["none"]`)...).ID
	q.names[id] = name
	time.Sleep(time.Millisecond) // the next one is younger
	return id
}

// paused makes a crawl that has begun and is paused.
func (q *queueTest) paused(as *Caller, name string) string {
	q.t.Helper()
	q.web.Hold(2)
	id := q.submit(as, name)
	q.await(id, func(c *Crawl) bool { return c.State == Running && c.Done >= 2 })
	q.do(id, CommandPause)
	q.awaitState(id, Pausing, Paused)
	q.web.Release()
	q.awaitState(id, Paused)
	return id
}

// story is what happened to crawls after so many events, such as "finishing a1".
func (q *queueTest) story(after int) (list []string) {
	q.t.Helper()
	events, err := q.Events.Since(q.t.Context(), EventFilter{})
	if err != nil {
		q.t.Fatal(err)
	}
	for _, e := range events[after:] {
		list = append(list, strings.TrimPrefix(string(e.Type), "crawl.")+" "+q.names[e.Crawl])
	}
	return list
}

// wantStory compares the story with what is wanted.
func (q *queueTest) wantStory(after int, want ...string) {
	q.t.Helper()
	if got := q.story(after); !slices.Equal(got, want) {
		q.t.Errorf("it was %q, want %q", got, want)
	}
}

// wantQueue compares the queue with names of crawls, and what each waits for with a code.
func (q *queueTest) wantQueue(code WaitCode, want ...string) {
	q.t.Helper()
	time.Sleep(2 * stepEvery)
	queue, err := q.Crawls.Queue(q.t.Context(), q.admin, CrawlFilter{Limit: 10})
	if err != nil {
		q.t.Fatal(err)
	}
	var got []string
	for i, c := range queue.Items {
		got = append(got, q.names[c.ID])
		if c.Waiting == nil || c.Waiting.Code != code || c.Waiting.Position != i+1 {
			q.t.Errorf("crawl %d of the queue, %s, is %s and waits for %+v", i+1, q.names[c.ID], c.State, c.Waiting)
		}
	}
	if !slices.Equal(got, want) {
		q.t.Errorf("the queue is %q, want %q", got, want)
	}
}

// The only slot is held by a crawl that runs for long. Crawls that are cancelled end nevertheless, one at a time and in
// turns between accounts, also those of an account that is disabled. Until then they are in the queue.
func TestCancelledCrawlsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueueTest(t, 1)
		b, c := q.addCaller("b"), q.addCaller("c")
		q.run()
		a1, a2, a3 := q.paused(q.admin, "a1"), q.paused(q.admin, "a2"), q.paused(q.admin, "a3")
		b1 := q.paused(b, "b1")
		q.web.Hold(2)
		long := q.submit(c, "c1")
		q.await(long, func(c *Crawl) bool { return c.State == Running && c.Done >= 2 })
		if _, err := q.Accounts.Edit(t.Context(), q.admin, b.Account.ID, AccountEdit{Disabled: new(true)}); err != nil {
			t.Fatal(err)
		}
		before := len(q.story(0))
		q.gate.shut()
		for _, id := range []string{a1, a2, a3, b1} {
			q.do(id, CommandCancel)
			synctest.Wait()
		}
		q.wantQueue(WaitSlot, "b1", "a2", "a3")
		q.wantStory(before, "finishing a1")
		if u, err := q.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Crawls.Running != 1 {
			t.Errorf("%+v, %v", u.Crawls, err)
		}
		_, err := q.Crawls.Edit(t.Context(), q.admin, a1, Edit{Settings: raw("max_depth", "3")})
		refusedBy(t, "a change of its limits, which would keep the slot", err, "settings.max_depth", "wrong_state")
		q.gate.open()
		for _, id := range []string{a1, a2, a3, b1} {
			q.awaitState(id, Cancelled)
		}
		q.wantStory(before, "finishing a1", "finished a1", "finishing b1", "finished b1", "finishing a2", "finished a2",
			"finishing a3", "finished a3")
		if got := q.get(long); got.State != Running {
			t.Errorf("the crawl that ran is %s", got.State)
		}
		q.web.Release()
		q.end()
	})
}

// An account that cancels many crawls at once does not delay a crawl of another: its crawls that only have to write
// their files wait in the queue, for its plan and for their turn.
func TestCancelledCrawlsWaitInTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan, slots int
		code        WaitCode
	}{"plan": {1, 3, WaitPlan}, "turns": {0, 1, WaitSlot}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueueTest(t, c.slots)
				q.setPlan(Plan{MaxCrawls: c.plan})
				b := q.addCaller("b")
				q.run()
				var all []string
				for _, name := range []string{"a1", "a2", "a3", "a4", "a5"} {
					all = append(all, q.paused(q.admin, name))
				}
				q.gate.shut()
				q.restart()
				for _, id := range all {
					q.do(id, CommandCancel)
				}
				other := q.submit(b, "b1")
				before := len(q.story(0))
				q.gate.shut()
				q.run()
				q.wantQueue(c.code, "a2", "a3", "a4", "a5")
				q.wantStory(before, "started b1", "finishing a1")
				if u, err := q.Accounts.Usage(t.Context(), DefaultAccount); err != nil || u.Crawls.Running != 1 {
					t.Errorf("%+v, %v", u.Crawls, err)
				}
				q.gate.open()
				q.awaitState(other, Complete)
				for _, id := range all {
					q.awaitState(id, Cancelled)
				}
				q.end()
			})
		})
	}
}

// The server ends while a crawl that was cancelled writes its files, and so does one that came to its end. After the
// next start the first has its turn. The second goes before the queue, but a later recrawl of it does not.
func TestRestartWhileFinishing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueueTest(t, 1)
		b := q.addCaller("b")
		q.run()
		a1, a2, a3 := q.paused(q.admin, "a1"), q.paused(q.admin, "a2"), q.paused(q.admin, "a3")
		q.gate.shut()
		q.do(a1, CommandCancel)
		q.awaitState(a1, Finishing)
		q.restart()
		if got := q.get(a1); got.State != Finishing {
			t.Errorf("the crawl that was cancelled is %s", got.State)
		}
		// as if it had come to its end
		if err := q.Write(t.Context(), func(tx *Tx) error {
			return tx.Change("UPDATE crawl SET state = ?, desired = ? WHERE id = ?", Finishing, DesiredRun, a3)
		}); err != nil {
			t.Fatal(err)
		}
		q.do(a2, CommandCancel)
		b1 := q.submit(b, "b1")
		if _, err := q.Crawls.Edit(t.Context(), q.admin, b1, Edit{Priority: new(9)}); err != nil {
			t.Fatal(err)
		}
		before := len(q.story(0))
		q.gate.shut()
		q.run()
		q.wantQueue(WaitSlot, "b1", "a2")
		q.wantStory(before) // a1 and a3 have slots; they were finishing before
		q.gate.open()
		for _, id := range []string{a1, a2} {
			q.awaitState(id, Cancelled)
		}
		q.awaitState(b1, Complete)
		q.awaitState(a3, Complete)
		q.web.Hold(1)
		long := q.submit(b, "b2")
		q.awaitState(long, Running)
		q.do(a3, CommandRecrawl)
		b3 := q.submit(b, "b3")
		if _, err := q.Crawls.Edit(t.Context(), q.admin, b3, Edit{Priority: new(6)}); err != nil {
			t.Fatal(err)
		}
		q.wantQueue(WaitSlot, "b3", "a3")
		q.web.Release()
		q.end()
	})
}
