package hooks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

const (
	// collectBatch is how many events are made into deliveries in one transaction.
	collectBatch = 500
	// reader is the name of the mark up to which events were made into deliveries.
	reader = "webhooks"
	// keepLog is how long a delivery stays in the log after its end.
	keepLog = 30 * 24 * time.Hour
	// mostKept bounds the deliveries of an account, in any state: they count in no plan, and one change may be told to
	// fifty webhooks. If there are more, each webhook keeps an equal part of nine tenths at most. Those that have ended
	// are removed before those that wait, and the oldest first.
	mostKept = 10_000
	// pruneAfter is how many deliveries are made before webhooks are checked again for too many.
	pruneAfter = 1000
)

// store is the deliveryStore in the database. Collect and Due are called by one goroutine.
type store struct {
	turns    int            // deliveries that Due has returned; used by Due only
	turn     map[string]int // the last of them, by account; used by Due only
	service  *service.Service
	prunedAt time.Time // used by Collect only
	made     int       // deliveries since then; used by Collect only
}

// Collect makes deliveries of the events since the last call. The mark moves in the same transaction.
func (s *store) Collect(ctx context.Context) error {
	for {
		last, err := service.Value[int64](ctx, s.service.DB().Read(),
			"SELECT COALESCE(MAX(event), 0) FROM cursor WHERE reader = ?", reader)
		if err != nil {
			return err
		}
		events, err := s.service.Events.Since(ctx, service.EventFilter{After: last, Limit: collectBatch})
		if err != nil {
			return err
		}
		if len(events) > 0 {
			err := s.service.Write(ctx, func(tx *service.Tx) error { return s.collect(ctx, tx, events) })
			if err != nil {
				return err
			}
		}
		if err := s.prune(ctx); err != nil || len(events) < collectBatch {
			return err
		}
	}
}

func (s *store) collect(ctx context.Context, tx *service.Tx, events []service.Event) error {
	now := page.Time{Time: time.Now().UTC()}
	for i := range events {
		e := &events[i]
		if !slices.Contains(EventTypes(), e.Type) {
			continue
		}
		hooks, err := query(ctx, tx, "WHERE account = ? AND enabled <> 0 AND after_event < ? ORDER BY id", e.Account,
			e.ID)
		if err != nil {
			return err
		}
		for _, w := range hooks {
			if !slices.Contains(w.Events, e.Type) {
				continue
			}
			d := service.Delivery{ID: service.NewID(), Webhook: w.ID, Event: e.ID, Type: e.Type, Crawl: e.Crawl,
				State: service.DeliveryPending, CreatedAt: now, NextAt: now}
			if err := insert(tx, &d, e); err != nil {
				return err
			}
			s.made++
		}
	}
	return tx.Put("cursor", "reader", "reader, event", reader, events[len(events)-1].ID)
}

// prune removes deliveries that are too old or too many, once an hour and whenever many were made.
func (s *store) prune(ctx context.Context) error {
	now := time.Now()
	if now.Sub(s.prunedAt).Abs() < time.Hour && s.made < pruneAfter {
		return nil
	}
	s.prunedAt, s.made = now, 0
	err := s.service.Write(ctx, func(tx *service.Tx) error {
		return tx.Change("DELETE FROM delivery WHERE done_at > 0 AND done_at < ?", now.Add(-keepLog))
	})
	if err != nil {
		return err
	}
	type hook struct {
		id, account string
		deliveries  int
	}
	all, err := service.Collect(ctx, s.service.DB().Read(), func(w *hook) []any {
		return []any{&w.id, &w.account, &w.deliveries}
	}, "SELECT webhook.id, account, number FROM (SELECT webhook AS hook, COUNT(*) AS number FROM delivery GROUP BY "+
		"webhook) AS counted JOIN webhook ON webhook.id = hook")
	deliveries, hooks := map[string]int{}, map[string]int{} // by account
	for _, w := range all {
		deliveries[w.account] += w.deliveries
		hooks[w.account]++
	}
	for _, w := range all {
		share := mostKept * 9 / 10 / hooks[w.account]
		if deliveries[w.account] <= mostKept || w.deliveries <= share {
			continue
		}
		err = errors.Join(err, s.service.Write(ctx, func(tx *service.Tx) error {
			return giveUp(ctx, tx, w.id, w.account, w.deliveries-share)
		}))
	}
	return err
}

// giveUp removes deliveries of a webhook. The audit log says how many of them still waited.
func giveUp(ctx context.Context, tx *service.Tx, id, account string, number int) error {
	const first = " FROM delivery WHERE webhook = ? ORDER BY state = ?, id LIMIT ?"
	waited, err := service.Value[int](ctx, tx,
		"SELECT COUNT(*) FROM (SELECT state"+first+") AS removed WHERE state = ?",
		id, service.DeliveryPending, number, service.DeliveryPending)
	if err != nil {
		return err
	}
	err = tx.Change("DELETE FROM delivery WHERE id IN (SELECT id"+first+")", id, service.DeliveryPending, number)
	if waited > 0 {
		system := &service.Caller{System: "webhooks", Account: service.Account{ID: account}}
		err = errors.Join(err, tx.Audit(system, "webhook.give_up", id, map[string]int{"deliveries": waited}))
	}
	return err
}

// waitingHooks finds the next delivery of each webhook by an index, because there may be many deliveries and each
// attempt runs this query.
const waitingHooks = "SELECT id, account, next FROM (SELECT webhook.id, webhook.account, (SELECT MIN(next_at) FROM " +
	"delivery WHERE delivery.state = ? AND delivery.webhook = webhook.id) AS next FROM webhook WHERE enabled <> 0) " +
	"AS hooks WHERE next IS NOT NULL ORDER BY next, id"

// Due returns deliveries that are due, at most one of each webhook. Accounts take turns: the one with the fewest
// attempts under way is first, and of several the one whose last turn is longest ago. So accounts with many slow
// receivers do not delay others for longer than one attempt takes.
func (s *store) Due(ctx context.Context, at time.Time, busy, resting []string, most int) (jobs []job,
	next time.Time, err error) {
	q := s.service.DB().Read()
	// the webhooks that have something to deliver, the earliest first
	waiting, err := service.Collect(ctx, q, func(w *waitingHook) []any { return []any{&w.id, &w.account, &w.next} },
		waitingHooks, service.DeliveryPending)
	if err != nil {
		return nil, next, err
	}
	sending := map[string]int{} // attempts under way, by account
	waiting = slices.DeleteFunc(waiting, func(w waitingHook) bool {
		isBusy := slices.Contains(busy, w.id)
		if isBusy {
			sending[w.account]++
		}
		return isBusy || slices.Contains(resting, w.id) || slices.Contains(resting, w.account)
	})
	for {
		// An attempt may take long, so turns are not enough: an account leaves places to others.
		waiting = slices.DeleteFunc(waiting, func(w waitingHook) bool {
			return !mayHave(sending[w.account], most-len(jobs))
		})
		if len(waiting) == 0 {
			return jobs, next, nil
		}
		first := 0
		for i, w := range waiting {
			best := waiting[first].account
			if !w.next.After(at) && cmp.Or(cmp.Compare(sending[w.account], sending[best]),
				cmp.Compare(s.turn[w.account], s.turn[best])) < 0 {
				first = i
			}
		}
		w := waiting[first]
		if w.next.After(at) {
			return jobs, waiting[0].next.Time, nil
		}
		waiting = slices.Delete(waiting, first, first+1)
		due, err := service.Collect(ctx, q, func(j *job) []any {
			return []any{&j.ID, &j.Webhook, &j.Account, &j.URL, &j.Secret, &j.AllowPrivate, &j.Body, &j.Attempts}
		}, "SELECT delivery.id, webhook, account, url, secret, allow_private, body, attempts FROM delivery JOIN "+
			"webhook ON webhook.id = delivery.webhook WHERE state = ? AND webhook = ? AND next_at = ? ORDER BY "+
			"delivery.id LIMIT 1", service.DeliveryPending, w.id, w.next)
		if err != nil {
			return nil, next, err
		}
		if len(due) > 0 { // it was not deleted meanwhile
			if s.turn == nil {
				s.turn = map[string]int{}
			}
			s.turns++
			s.turn[w.account] = s.turns
			sending[w.account]++
		}
		jobs = append(jobs, due...)
	}
}

// mayHave says whether an account with some attempts under way may have another one, when so many places are free: it
// has at most three times as many as it leaves free, and one in any case.
func mayHave(sending, free int) bool { return free > 0 && (sending == 0 || sending/3 < free-1) }

// waitingHook is a webhook with a pending delivery.
type waitingHook struct {
	id, account string
	next        page.Time
}

// Record stores an attempt. If a user asked to send the delivery again meanwhile, that stays due.
func (s *store) Record(ctx context.Context, a attempt) error {
	state, done := service.Delivered, a.At
	switch {
	case !a.NextAt.IsZero():
		state, done = service.DeliveryPending, time.Time{}
	case a.Error != "":
		state = service.DeliveryFailed
	}
	return s.service.Write(ctx, func(tx *service.Tx) error {
		n, err := tx.Exec("UPDATE delivery SET state = ?, attempts = attempts + 1, next_at = ?, done_at = ?, "+
			"last_status = ?, last_error = ? WHERE id = ? AND state = ? AND next_at <= ?",
			state, a.NextAt, done, a.Status, a.Error, a.Delivery, service.DeliveryPending, a.At)
		if err != nil || n > 0 {
			return err
		}
		return tx.Change("UPDATE delivery SET last_status = ?, last_error = ? WHERE id = ?", a.Status, a.Error,
			a.Delivery)
	})
}
