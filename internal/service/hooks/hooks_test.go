package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/service"
)

// fixture is a service that keeps records and runs nothing.
type fixture struct {
	t *testing.T
	*service.Service
	a, b      *service.Caller // of two accounts, may write
	attempted chan bool       // has one for each attempt that was recorded
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), RecordsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &fixture{t: t, Service: s, attempted: make(chan bool, 1000)}
	f.a, f.b = f.account("a"), f.account("b")
	return f
}

func (f *fixture) account(name string) *service.Caller {
	f.t.Helper()
	account, err := f.Accounts.Create(f.t.Context(), &service.Caller{System: "test",
		Scopes: []service.Scope{service.ScopeAdmin}}, service.Account{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return &service.Caller{Account: account, System: "test", Scopes: []service.Scope{service.ScopeWrite}}
}

// add records events of an account.
func (f *fixture) add(of *service.Caller, kinds ...service.EventType) {
	f.t.Helper()
	err := f.Write(f.t.Context(), func(tx *service.Tx) (err error) {
		for _, kind := range kinds {
			err = errors.Join(err, tx.Record(service.Event{Type: kind, Account: of.Account.ID, Crawl: "c1",
				Data: json.RawMessage(`{"state":"complete"}`)}))
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) hooks() *Hooks {
	return New(f.Service, Options{UserAgent: "Test/1", Attempted: func(ok bool) { f.attempted <- ok }})
}

// receiver is a receiver of webhooks.
type receiver struct {
	*httptest.Server
	got    chan request
	status func(path string) int
	hold   chan struct{} // if it is not nil, answers wait until it is closed
}

type request struct{ path, id, body string }

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(chan request, 1000), status: func(string) int { return http.StatusNoContent }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.got <- request{q.URL.Path, q.Header.Get(headerID), string(body)}
		if r.hold != nil {
			select {
			case <-r.hold:
			case <-q.Context().Done():
			}
		}
		w.WriteHeader(r.status(q.URL.Path))
	}))
	t.Cleanup(r.Close)
	return r
}

func admin(c *service.Caller) *service.Caller {
	more := *c
	more.Scopes = []service.Scope{service.ScopeAdmin}
	return &more
}

// running runs hooks until the returned function is called.
func running(t *testing.T, h *Hooks) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { h.Run(ctx) })
	stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func create(t *testing.T, h *Hooks, c *service.Caller, url string, events ...service.EventType) *service.Webhook {
	t.Helper()
	yes := true
	w, err := h.Create(t.Context(), c, Input{URL: &url, Events: &events, AllowPrivate: &yes})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// logOf waits until no delivery of a webhook waits for its first attempt, and returns the log.
func (f *fixture) logOf(h *Hooks, c *service.Caller, id string, want int) []service.Delivery {
	f.t.Helper()
	for {
		list, err := h.Deliveries(f.t.Context(), c, id, "", 0)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(list.Items) >= want && !slices.ContainsFunc(list.Items,
			func(d service.Delivery) bool { return d.Attempts == 0 }) {
			return list.Items
		}
		<-f.attempted
	}
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), newReceiver(t)
	h := f.hooks()
	f.add(f.a, service.CrawlFinished) // before there is a webhook
	w := create(t, h, admin(f.a), r.URL+"/a", service.CrawlFinished, service.QuotaReached)
	create(t, h, admin(f.b), r.URL+"/b")
	if !strings.HasPrefix(w.Secret, "whsec_") {
		t.Errorf("secret %q", w.Secret)
	}
	running(t, h)
	f.add(f.a, service.CrawlStarted, service.CrawlQueued, service.CrawlFinished)
	f.add(f.b, service.CrawlStarted)
	got := map[string]request{}
	for range 2 {
		q := <-r.got
		got[q.path] = q
	}
	var event service.Event
	if err := json.Unmarshal([]byte(got["/a"].body), &event); err != nil || event.ID != 4 ||
		event.Type != service.CrawlFinished || !strings.Contains(string(event.Data), "complete") {
		t.Errorf("account a gets %s", got["/a"].body)
	}
	if !strings.Contains(got["/b"].body, `"crawl.started"`) {
		t.Errorf("account b gets %s", got["/b"].body)
	}
	log := f.logOf(h, f.a, w.ID, 1)
	if d := log[0]; len(log) != 1 || d.ID != got["/a"].id || d.State != service.Delivered || d.LastStatus != 204 ||
		d.Event != 4 || d.DoneAt.IsZero() || !d.NextAt.IsZero() {
		t.Errorf("log %+v", log)
	}
	// Sent again, with the same id; and a test.
	if _, err := h.Redeliver(t.Context(), f.a, w.ID, log[0].ID); err != nil {
		t.Fatal(err)
	}
	if q := <-r.got; q.id != log[0].ID || q.body != got["/a"].body {
		t.Errorf("sent again: %+v", q)
	}
	if _, err := h.Test(t.Context(), f.a, w.ID); err != nil {
		t.Fatal(err)
	}
	if q := <-r.got; !strings.Contains(q.body, string(testEvent)) {
		t.Errorf("test: %+v", q)
	}
	if log := f.logOf(h, f.a, w.ID, 2); len(log) != 2 || log[0].Type != testEvent || log[1].State != service.Delivered {
		t.Errorf("log %+v", log)
	}
}

// The process ends while a receiver has not answered: the next one sends the same delivery, and makes no second one of
// the event.
func TestKilledWhileSending(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), newReceiver(t)
	r.hold = make(chan struct{})
	h := f.hooks()
	w := create(t, h, admin(f.a), r.URL+"/a")
	stop := running(t, h)
	f.add(f.a, service.CrawlFinished)
	first := <-r.got
	stop()
	close(r.hold)
	h = f.hooks()
	running(t, h)
	if again := <-r.got; again != first {
		t.Errorf("first %+v, then %+v", first, again)
	}
	if log := f.logOf(h, f.a, w.ID, 1); len(log) != 1 || log[0].State != service.Delivered || log[0].Attempts != 1 {
		t.Errorf("log %+v", log)
	}
}

func TestFailedAndDisabled(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), newReceiver(t)
	r.status = func(string) int { return http.StatusInternalServerError }
	h := f.hooks()
	w := create(t, h, admin(f.a), r.URL+"/a")
	running(t, h)
	f.add(f.a, service.CrawlPaused)
	<-r.got
	log := f.logOf(h, f.a, w.ID, 1)
	if d := log[0]; d.State != service.DeliveryPending || d.LastStatus != 500 || d.LastError == "" ||
		d.NextAt.Sub(d.CreatedAt.Time) < 9*time.Second {
		t.Errorf("log %+v", log)
	}
	off := false
	if _, err := h.Edit(t.Context(), f.a, w.ID, Input{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	f.add(f.a, service.CrawlFinished)
	other := create(t, h, admin(f.a), r.URL+"/other")
	f.add(f.a, service.CrawlStarted)
	for q := range r.got {
		if q.path == "/other" {
			break
		}
		// the pause may have been sent again before the webhook was off
		if strings.Contains(q.body, string(service.CrawlFinished)) {
			t.Errorf("%+v was sent though the webhook is off", q)
		}
	}
	f.logOf(h, f.a, other.ID, 1)
	if log := f.logOf(h, f.a, w.ID, 1); len(log) != 1 {
		t.Errorf("log %+v", log)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	yes, url := true, "https://example.com/hook"
	for name, c := range map[string]struct {
		by    *service.Caller
		in    Input
		field string
	}{
		"nothing":           {f.a, Input{}, "url"},
		"no URL":            {f.a, Input{URL: new("example.com")}, "url"},
		"password":          {f.a, Input{URL: new("https://u:p@example.com/")}, "url"},
		"private":           {f.a, Input{URL: new("http://10.0.0.1/")}, "url"},
		"localhost":         {admin(f.a), Input{URL: new("http://LOCALHOST:80/")}, "url"},
		"short address":     {f.a, Input{URL: new("http://10.1/hook")}, "url"},
		"octal address":     {f.a, Input{URL: new("http://0177.0.0.0x1:8080/")}, "url"},
		"one number":        {admin(f.a), Input{URL: new("https://3232235777/"), AllowPrivate: &yes}, "url"},
		"wide digits":       {f.a, Input{URL: new("http://１２７．０．０．１/")}, "url"},
		"public one number": {f.a, Input{URL: new("http://0x08080808/")}, "url"},
		"mapped address":    {f.a, Input{URL: new("http://[::ffff:127.0.0.1]/")}, "url"},
		"localhost, a dot":  {f.a, Input{URL: new("http://a.localhost./")}, "url"},
		"allow by a tenant": {f.a, Input{URL: &url, AllowPrivate: &yes}, "allow_private"},
		"event":             {f.a, Input{URL: &url, Events: &[]service.EventType{"crawl.exploded"}}, "events"},
	} {
		_, err := h.Create(t.Context(), c.by, c.in)
		if of, ok := errors.AsType[*service.Error](err); !ok || of.Code != service.ErrInvalid || len(of.Fields) != 1 ||
			of.Fields[0].Field != c.field {
			t.Errorf("%s: %v, want a fault of %s", name, err, c.field)
		}
	}
	for i := range maxPerAccount + 1 {
		_, err := h.Create(t.Context(), f.a, Input{URL: &url})
		if of, ok := errors.AsType[*service.Error](err); (i == maxPerAccount) != (ok &&
			of.Code == service.ErrPlanLimit) {
			t.Fatalf("webhook %d: %v", i, err)
		}
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	w := create(t, h, admin(f.a), "http://10.0.0.1/hook")
	d, err := h.Test(t.Context(), f.a, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	stranger := f.b
	_, getErr := h.Get(t.Context(), stranger, w.ID)
	_, editErr := h.Edit(t.Context(), stranger, w.ID, Input{NewSecret: true})
	_, testErr := h.Test(t.Context(), stranger, w.ID)
	_, logErr := h.Deliveries(t.Context(), stranger, w.ID, "", 0)
	_, againErr := h.Redeliver(t.Context(), stranger, w.ID, d.ID)
	_, noneErr := h.Redeliver(t.Context(), f.a, w.ID, "d0")
	for i, err := range []error{getErr, editErr, testErr, logErr, againErr, noneErr,
		h.Delete(t.Context(), stranger, w.ID)} {
		if of, ok := errors.AsType[*service.Error](err); !ok || of.Code != service.ErrNotFound {
			t.Errorf("call %d: %v", i, err)
		}
	}
	got, err := h.Edit(t.Context(), f.a, w.ID, Input{NewSecret: true})
	if err != nil || got.Secret == "" || got.Secret == w.Secret || !got.AllowPrivate {
		t.Errorf("%+v, %v", got, err)
	}
	// What an admin allowed is for that address only.
	for _, url := range []string{"http://10.0.0.2/hook", "http://10.0.0.1/other", "https://inside.example.com/"} {
		if got, err := h.Edit(t.Context(), f.a, w.ID, Input{URL: &url, AllowPrivate: new(true),
			Events: &[]service.EventType{service.CrawlPaused}}); err == nil {
			t.Errorf("a tenant moved it to %+v", got)
		}
	}
	if got, err := h.Edit(t.Context(), f.a, w.ID, Input{URL: new("http://10.0.0.2/hook")}); err == nil {
		t.Errorf("a tenant moved it to %+v", got)
	}
	if got, err := h.Edit(t.Context(), f.a, w.ID, Input{URL: &w.URL, AllowPrivate: new(true)}); err != nil ||
		!got.AllowPrivate {
		t.Errorf("the same address: %+v, %v", got, err)
	}
	if got, err := h.Edit(t.Context(), f.a, w.ID, Input{URL: new("https://inside.example.com/")}); err != nil ||
		got.AllowPrivate || got.Secret != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 4 {
		if _, err := h.Test(t.Context(), f.a, w.ID); err != nil {
			t.Fatal(i, err)
		}
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		list, err := h.Deliveries(t.Context(), f.a, w.ID, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Items {
			seen[d.ID] = true
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("the log has %d deliveries in parts", len(seen))
	}
	if err := h.Delete(t.Context(), f.a, w.ID); err != nil {
		t.Error(err)
	}
	if list, err := h.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// The webhook of an account is next though those of another account have waited for longer, as long as the other has
// attempts under way. An account leaves places to others, and nothing is done until one of its attempts has ended.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	var many []string
	for range 12 {
		many = append(many, create(t, h, admin(f.a), "https://example.com/slow").ID)
	}
	one := create(t, h, admin(f.b), "https://example.com/hook").ID
	s := &store{service: f.Service}
	f.add(f.a, service.CrawlStarted)
	f.add(f.a, service.CrawlFinished)
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	due := func(most int, busy ...string) (ids []string) {
		t.Helper()
		jobs, _, err := s.Due(t.Context(), time.Now().Add(time.Hour), busy, nil, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			ids = append(ids, j.Webhook)
		}
		return ids
	}
	if got := due(8); len(got) != 6 {
		t.Errorf("of one account %d deliveries are due, want 6", len(got))
	}
	if jobs, next, err := s.Due(t.Context(), time.Now().Add(time.Hour), many[:6], nil, 2); err != nil ||
		len(jobs) > 0 || !next.IsZero() {
		t.Errorf("beside 6 attempts: %v, next %v, %v", jobs, next, err)
	}
	f.add(f.b, service.CrawlFinished)
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := due(1, many[:7]...); !slices.Equal(got, []string{one}) {
		t.Errorf("beside 7 attempts of the other account, %q is next, want %q", got, one)
	}
	if got := due(8); len(got) != 6 || !slices.Contains(got, one) {
		t.Errorf("of both accounts, %q are due, want %q among them", got, one)
	}
	if got := due(3, append(many[:5:5], one)...); len(got) != 1 {
		t.Errorf("%q are due, want 1 of the other account", got)
	}
	// Nothing is under way: the two take turns, though one has older deliveries and many more of them.
	f.add(f.b, service.CrawlStarted)
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if got := due(1); len(got) != 1 || (got[0] == one) == (i%2 == 1) {
			t.Errorf("turn %d is that of %q", i, got)
		}
	}
}

// More events than one transaction takes, most of which concern no webhook; and the log is not kept for ever.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	w, err := h.Create(t.Context(), f.a, Input{URL: new("https://example.com/hook")})
	if err != nil {
		t.Fatal(err)
	}
	f.add(f.b, slices.Repeat([]service.EventType{service.CrawlStarted}, 2*collectBatch+3)...)
	f.add(f.a, service.CrawlFinished)
	s := &store{service: f.Service}
	for range 2 {
		if err := s.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	jobs, next, err := s.Due(t.Context(), time.Now(), nil, nil, 8)
	if err != nil || len(jobs) != 1 || jobs[0].Webhook != w.ID || jobs[0].Account != f.a.Account.ID ||
		jobs[0].AllowPrivate || !next.IsZero() {
		t.Fatalf("%+v, %v, %v", jobs, next, err)
	}
	if jobs, next, err := s.Due(t.Context(), time.Now(), []string{w.ID}, nil, 8); err != nil || len(jobs) != 0 ||
		!next.IsZero() {
		t.Errorf("of a busy webhook: %+v, %v, %v", jobs, next, err)
	}
	if jobs, next, err := s.Due(t.Context(), time.Now().Add(-time.Hour), nil, nil, 8); err != nil || len(jobs) != 0 ||
		next.IsZero() {
		t.Errorf("before it is due: %+v, %v, %v", jobs, next, err)
	}
	if err := s.Record(t.Context(), attempt{Delivery: jobs[0].ID, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-keepLog - time.Hour).UnixMilli()
	err = f.Write(t.Context(), func(tx *service.Tx) error {
		_, err := tx.Exec("UPDATE delivery SET done_at = ?", old)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.prunedAt = time.Time{}
	if err := s.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := h.Deliveries(t.Context(), f.a, w.ID, "", 0); err != nil || len(list.Items) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// What is due is found without reading the deliveries that wait, of which an account can make many; and tests are not
// taken without bound.
func TestManyWaitingDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	w := create(t, h, admin(f.a), "http://receiver.example/")
	for range mostTested {
		if _, err := h.Test(t.Context(), f.a, w.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Test(t.Context(), f.a, w.ID)
	if e, ok := errors.AsType[*service.Error](err); !ok || e.Code != service.ErrPlanLimit {
		t.Errorf("a test after %d that wait: %v", mostTested, err)
	}
	rows, err := f.DB().Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+waitingHooks, service.DeliveryPending)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(step, "delivery") && !strings.Contains(step, "(state=? AND webhook=?)") {
			t.Errorf("a step reads more than one delivery of each webhook: %s", step)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// The deliveries of a webhook are bounded in number, also while none of them is sent. Those that have ended are removed
// before those that wait, of these the oldest first, and the audit log says how many. Other webhooks keep theirs.
func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := f.hooks()
	full, other := create(t, h, admin(f.a), "http://receiver.example/"), create(t, h, admin(f.b), "http://b.example/")
	s := &store{service: f.Service}
	collect := func(of *service.Caller, events int) {
		f.add(of, slices.Repeat([]service.EventType{service.CrawlStarted}, events)...)
		if err := s.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	number := func(where string, args ...any) int {
		t.Helper()
		n, err := service.Value[int](t.Context(), f.DB().Read(), "SELECT COUNT(*) FROM "+where, args...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	given := func() int { return number("audit WHERE action = 'webhook.give_up' AND object = ?", full.ID) }
	collect(f.b, 3)
	collect(f.a, 10)
	err := f.Write(t.Context(), func(tx *service.Tx) error {
		// the five newest have arrived
		return tx.Change("UPDATE delivery SET state = ?, done_at = ? WHERE id IN (SELECT id FROM delivery WHERE webhook "+
			"= ? ORDER BY id DESC LIMIT 5)", service.Delivered, time.Now(), full.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	oldest, err := queryDeliveries(t.Context(), f.DB().Read(), "WHERE webhook = ? ORDER BY id LIMIT 1", full.ID)
	if err != nil || len(oldest) != 1 {
		t.Fatalf("%v, %v", oldest, err)
	}
	collect(f.a, mostKept-10)
	if n := number("delivery WHERE webhook = ?", full.ID); n != mostKept || given() != 0 {
		t.Fatalf("%d deliveries are kept of %d, %d entries of the audit log", n, mostKept, given())
	}
	collect(f.a, 2*pruneAfter)
	if n := number("delivery WHERE webhook = ?", full.ID); n > mostKept+pruneAfter || n < mostKept-mostKept/10 ||
		given() == 0 {
		t.Errorf("%d deliveries are kept, %d entries of the audit log", n, given())
	}
	if n := number("delivery WHERE webhook = ? AND state <> ?", full.ID, service.DeliveryPending); n != 0 {
		t.Errorf("%d deliveries that have ended are kept, though others that waited were removed", n)
	}
	if n := number("delivery WHERE id = ?", oldest[0].ID); n != 0 {
		t.Error("the oldest delivery that waits is kept")
	}
	if n := number("delivery WHERE webhook = ?", other.ID); n != 3 {
		t.Errorf("another webhook has %d deliveries, want 3", n)
	}
	// many webhooks of an account have no more, and one that has few keeps them
	for i := range 19 {
		create(t, h, admin(f.a), fmt.Sprintf("http://receiver%d.example/", i))
	}
	collect(f.a, pruneAfter)
	all, least := number("delivery WHERE webhook <> ?", other.ID), mostKept
	hooks, err := h.List(t.Context(), f.a.Account.ID)
	if err != nil || len(hooks) != 20 {
		t.Fatalf("%d webhooks, %v", len(hooks), err)
	}
	for _, w := range hooks {
		least = min(least, number("delivery WHERE webhook = ?", w.ID))
	}
	if all > mostKept+pruneAfter || least < mostKept*9/10/20 {
		t.Errorf("%d deliveries of 20 webhooks are kept, and %d of one", all, least)
	}
}

// While the disk is nearly full, nothing is added to webhooks and deliveries, and webhooks can be deleted.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const least = 1 << 30
	var free atomic.Int64
	free.Store(least)
	s, err := service.Open(t.Context(), service.Options{Dir: t.TempDir(), SlotDir: t.TempDir(), MinFree: least,
		FreeBytes: func(string) (int64, error) { return free.Load(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &fixture{t: t, Service: s}
	c, h := admin(f.account("a")), f.hooks()
	w := create(t, h, c, "http://receiver.example/")
	d, err := h.Test(t.Context(), c, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	free.Store(least - 1)
	for what, call := range map[string]func() error{
		"create":    func() error { _, err := h.Create(t.Context(), c, Input{URL: &w.URL}); return err },
		"edit":      func() error { _, err := h.Edit(t.Context(), c, w.ID, Input{NewSecret: true}); return err },
		"test":      func() error { _, err := h.Test(t.Context(), c, w.ID); return err },
		"redeliver": func() error { _, err := h.Redeliver(t.Context(), c, w.ID, d.ID); return err },
	} {
		if e, ok := errors.AsType[*service.Error](call()); !ok || e.Code != service.ErrDiskFull {
			t.Errorf("%s: %v", what, e)
		}
	}
	if err := h.Delete(t.Context(), c, w.ID); err != nil {
		t.Errorf("delete: %v", err)
	}
}
