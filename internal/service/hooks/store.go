package hooks

import (
	"context"
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
)

// store is the deliveryStore in the database. Collect is called by one goroutine.
type store struct {
	service  *service.Service
	prunedAt time.Time // used by Collect only
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
			if err := s.service.Write(ctx, func(tx *service.Tx) error { return collect(ctx, tx, events) }); err != nil {
				return err
			}
		}
		if len(events) < collectBatch {
			return s.prune(ctx)
		}
	}
}

func collect(ctx context.Context, tx *service.Tx, events []service.Event) error {
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
		}
	}
	return tx.Put("cursor", "reader", "reader, event", reader, events[len(events)-1].ID)
}

// prune removes old entries of the log, once an hour.
func (s *store) prune(ctx context.Context) error {
	now := time.Now()
	if now.Sub(s.prunedAt).Abs() < time.Hour {
		return nil
	}
	s.prunedAt = now
	return s.service.Write(ctx, func(tx *service.Tx) error {
		return tx.Change("DELETE FROM delivery WHERE done_at > 0 AND done_at < ?", now.Add(-keepLog))
	})
}

// waitingHooks finds the next delivery of each webhook by an index, because there may be many deliveries and each
// attempt runs this query.
const waitingHooks = "SELECT id, account, next FROM (SELECT webhook.id, webhook.account, (SELECT MIN(next_at) FROM " +
	"delivery WHERE delivery.state = ? AND delivery.webhook = webhook.id) AS next FROM webhook WHERE enabled <> 0) " +
	"AS hooks WHERE next IS NOT NULL ORDER BY next, id"

// Due returns deliveries that are due, at most one of each webhook. Accounts take turns: the one with the fewest
// attempts under way is first, so that an account with many slow receivers does not delay others for longer than one
// attempt takes.
func (s *store) Due(ctx context.Context, at time.Time, not []string, most int) (jobs []job, next time.Time,
	err error) {
	q := s.service.DB().Read()
	// the webhooks that have something to deliver, the earliest first
	waiting, err := service.Collect(ctx, q, func(w *waitingHook) []any { return []any{&w.id, &w.account, &w.next} },
		waitingHooks, service.DeliveryPending)
	if err != nil {
		return nil, next, err
	}
	sending := map[string]int{} // attempts under way, by account
	waiting = slices.DeleteFunc(waiting, func(w waitingHook) bool {
		busy := slices.Contains(not, w.id)
		if busy {
			sending[w.account]++
		}
		return busy
	})
	for len(waiting) > 0 {
		first := 0
		for i, w := range waiting {
			if !w.next.After(at) && sending[w.account] < sending[waiting[first].account] {
				first = i
			}
		}
		w := waiting[first]
		if w.next.After(at) || len(jobs) == most {
			return jobs, waiting[0].next.Time, nil
		}
		waiting = slices.Delete(waiting, first, first+1)
		due, err := service.Collect(ctx, q, func(j *job) []any {
			return []any{&j.ID, &j.Webhook, &j.URL, &j.Secret, &j.AllowPrivate, &j.Body, &j.Attempts}
		}, "SELECT delivery.id, webhook, url, secret, allow_private, body, attempts FROM delivery JOIN webhook ON "+
			"webhook.id = delivery.webhook WHERE state = ? AND webhook = ? AND next_at = ? ORDER BY delivery.id LIMIT "+
			"1", service.DeliveryPending, w.id, w.next)
		if err != nil {
			return nil, next, err
		}
		sending[w.account] += len(due) // none if it was deleted meanwhile
		jobs = append(jobs, due...)
	}
	return jobs, next, nil
}

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
