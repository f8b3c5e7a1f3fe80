package hooks

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// job is one delivery that is due.
type job struct {
	ID           string // stays the same over all attempts
	Webhook      string
	Account      string
	URL          string
	Secret       string
	AllowPrivate bool // an admin allowed addresses that are not public
	Body         []byte
	Attempts     int // made before
}

// attempt is what became of one try.
type attempt struct {
	Delivery string
	At       time.Time
	Status   int       // of the answer; 0 if there was none
	Error    string    // empty means delivered
	NextAt   time.Time // zero if there is no further attempt
}

// deliveryStore keeps deliveries.
type deliveryStore interface {
	// Collect makes deliveries of events that have come since the last call.
	Collect(ctx context.Context) error
	// Due returns deliveries that are due at a time, the oldest first and at most one of each webhook, but none of the
	// webhooks that are busy, or that rest themselves or by their account, and no more of an account than leaves places
	// to others, of which the busy ones take some. Next is when a delivery of any other webhook that may be sent is
	// due; zero if there is none.
	Due(ctx context.Context, at time.Time, busy, resting []string, most int) (jobs []job, next time.Time, err error)
	// Record stores an attempt.
	Record(ctx context.Context, a attempt) error
}

// Options are the settings of deliveries.
type Options struct {
	UserAgent string
	Log       *slog.Logger // nil means none

	// Compute waits until an account may compute something that takes long, as the certificates of a receiver do, and
	// returns what ends that. Nil means at once.
	Compute func(ctx context.Context, account string) (done func())

	// Attempted, if not nil, is called after each attempt was recorded, with whether the delivery arrived. It is for
	// metrics.
	Attempted func(ok bool)
}

const (
	// maxSending is how many attempts are under way at once. A webhook has one of them at most, and an account six, so
	// slow receivers do not delay others.
	maxSending = 8
	// pollEvery bounds how long new work is not noticed if nothing calls wakeUp, such as after the clock was set.
	pollEvery = 10 * time.Second
	// A webhook with so many failed attempts in a row rests before each further one, at first for a second and in the
	// end for maxRest: else a receiver that is gone would be asked for each event, up to nine times.
	failuresBeforeRest = 5
	maxRest            = time.Minute
	// An account makes one attempt each attemptGap in the long run, and manyAttempts at once: all its webhooks are told
	// of an event, and their receivers need not be its own.
	attemptGap   = 100 * time.Millisecond
	manyAttempts = 100
)

// delays are the times between attempts: 9 attempts in about two days.
func delays() []time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
}

// nextAttempt is when a delivery is tried again after so many failed attempts. It is zero if the delivery is given up.
func nextAttempt(failed int, now time.Time) time.Time {
	if failed > len(delays()) {
		return time.Time{}
	}
	return now.Add(delays()[failed-1])
}

// deliverer sends what is due. Its run is called once.
type deliverer struct {
	Options
	store  deliveryStore
	sender *sender
	wake   chan struct{} // holds one signal
	ended  chan string   // webhooks whose attempt has ended; has room for all

	mu    sync.Mutex
	rests map[string]rest // guarded by mu; of webhooks whose last attempt has failed
	// paces are when accounts would have made their attempts one attemptGap after the other; guarded by mu
	paces map[string]time.Time
}

// rest is the rest of a webhook whose attempts fail.
type rest struct {
	failures int // in a row
	until    time.Time
}

// newDeliverer makes a deliverer. Nothing is opened yet.
func newDeliverer(s deliveryStore, o Options) *deliverer {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &deliverer{Options: o, store: s, sender: newSender(o), wake: make(chan struct{}, 1),
		ended: make(chan string, maxSending), rests: map[string]rest{},
		paces: map[string]time.Time{}}
}

// forgive ends the rest of a webhook: a user has changed it, or asks for an attempt.
func (d *deliverer) forgive(webhook string) {
	d.mu.Lock()
	delete(d.rests, webhook)
	d.mu.Unlock()
	d.wakeUp()
}

// began notes that an account makes an attempt.
func (d *deliverer) began(account string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.paces[account]; at.After(now) {
		now = at
	}
	d.paces[account] = now.Add(attemptGap)
}

// judge notes whether the last attempt of a webhook has failed.
func (d *deliverer) judge(webhook string, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !failed {
		delete(d.rests, webhook)
		return
	}
	r := d.rests[webhook]
	r.failures, r.until = r.failures+1, time.Now()
	if over := r.failures - failuresBeforeRest; over >= 0 {
		r.until = r.until.Add(min(maxRest, time.Second<<min(over, 10)))
	}
	d.rests[webhook] = r
}

// resting returns the webhooks and accounts that rest, and when the first of them may make an attempt again. It forgets
// those that have made none for long.
func (d *deliverer) resting(now time.Time) (ids []string, first time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rests := func(id string, until time.Time) {
		if ids = append(ids, id); first.IsZero() || until.Before(first) {
			first = until
		}
	}
	for account, at := range d.paces {
		switch until := at.Add(-manyAttempts * attemptGap); {
		case now.Before(until):
			rests(account, until)
		case now.After(at):
			delete(d.paces, account)
		}
	}
	for id, r := range d.rests {
		switch {
		case now.Before(r.until):
			rests(id, r.until)
		case now.Sub(r.until) > 48*time.Hour: // longer than the longest of delays: it was deleted, perhaps
			delete(d.rests, id)
		}
	}
	return ids, first
}

// wakeUp says that there may be new events or deliveries. It does not block.
func (d *deliverer) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run delivers until ctx ends. Attempts that are under way then end with it and are made again by the next run.
func (d *deliverer) run(ctx context.Context) {
	defer d.sender.close()
	var sending sync.WaitGroup
	defer sending.Wait()
	busy := map[string]bool{} // webhooks with an attempt under way
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-d.ended:
			delete(busy, id)
		case <-d.wake:
		case <-timer.C:
		}
		jobs, next, err := d.due(ctx, busy)
		if err != nil && ctx.Err() == nil {
			d.Log.Error("cannot read deliveries of webhooks; trying again", "error", err, "in", pollEvery)
		}
		for _, j := range jobs {
			busy[j.Webhook] = true
			d.began(j.Account, time.Now())
			sending.Go(func() {
				d.attempt(ctx, &j)
				d.ended <- j.Webhook
			})
		}
		wait := pollEvery
		if !next.IsZero() && len(busy) < maxSending {
			wait = min(wait, max(0, time.Until(next)))
		}
		timer.Reset(wait)
	}
}

func (d *deliverer) due(ctx context.Context, busy map[string]bool) ([]job, time.Time, error) {
	if err := d.store.Collect(ctx); err != nil {
		return nil, time.Time{}, err
	}
	if len(busy) == maxSending {
		return nil, time.Time{}, nil
	}
	now := time.Now()
	resting, wake := d.resting(now)
	jobs, next, err := d.store.Due(ctx, now, slices.Collect(maps.Keys(busy)), resting, maxSending-len(busy))
	if next.IsZero() || !wake.IsZero() && wake.Before(next) {
		next = wake
	}
	return jobs, next, err
}

// attempt sends a delivery once and records it, unless ctx ended the attempt.
func (d *deliverer) attempt(ctx context.Context, j *job) {
	now := time.Now()
	status, err := d.sender.send(ctx, j, now)
	if err != nil && ctx.Err() != nil {
		return
	}
	d.judge(j.Webhook, err != nil)
	a := attempt{Delivery: j.ID, At: now, Status: status}
	if err != nil {
		a.Error, a.NextAt = err.Error(), nextAttempt(j.Attempts+1, time.Now())
		d.Log.Warn("a webhook was not delivered", "webhook", j.Webhook, "delivery", j.ID, "attempt", j.Attempts+1,
			"next", a.NextAt, "error", err)
	}
	// What was sent is recorded even if ctx ended meanwhile.
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = d.store.Record(record, a)
	if d.Attempted != nil {
		d.Attempted(a.Error == "")
	}
	if err != nil {
		d.Log.Error("cannot record a delivery, which will be sent again", "webhook", j.Webhook, "delivery", j.ID,
			"error", err, "in", pollEvery)
		select { // the webhook counts as busy meanwhile, so that its receiver is not asked in a loop
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
	}
}
