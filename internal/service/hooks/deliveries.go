package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// Deliveries returns a part of the delivery log of a webhook, the newest first. Limit 0 means 50; at most 500.
func (h *Hooks) Deliveries(ctx context.Context, c *service.Caller, id, cursor string,
	limit int) (list service.List[service.Delivery], err error) {
	limit = min(cmp.Or(limit, 50), 500)
	q := h.service.DB().Read()
	if _, err := get(ctx, q, c, id); err != nil {
		return list, err
	}
	// Ids of deliveries are in the order of their creation.
	list.Items, err = queryDeliveries(ctx, q, "WHERE webhook = ? AND (? = '' OR id < ?) ORDER BY id DESC LIMIT ?", id,
		cursor, cursor, limit+1)
	if len(list.Items) > limit {
		list.Items = list.Items[:limit]
		list.NextCursor = list.Items[limit-1].ID
	}
	return list, err
}

// Redeliver sends a delivery again, whatever became of it. It keeps its id; its attempts begin anew.
func (h *Hooks) Redeliver(ctx context.Context, c *service.Caller, id, delivery string) (d *service.Delivery,
	err error) {
	err = h.service.Add(ctx, func(tx *service.Tx) error {
		if _, err := get(ctx, tx, c, id); err != nil {
			return err
		}
		err := tx.Change("UPDATE delivery SET state = ?, attempts = 0, next_at = ?, done_at = 0 WHERE id = ? AND "+
			"webhook = ?", service.DeliveryPending, tx.Now(), delivery, id)
		if err != nil {
			return err
		}
		list, err := queryDeliveries(ctx, tx, "WHERE id = ? AND webhook = ?", delivery, id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return &service.Error{Code: service.ErrNotFound,
				Detail: "there is no such delivery; the log keeps them for 30 days"}
		}
		d = &list[0]
		return tx.Audit(c, "webhook.redeliver", delivery, nil)
	})
	if err != nil {
		return nil, err
	}
	h.deliverer.forgive(id)
	return d, nil
}

// mostTested is the number of waiting deliveries from which on a webhook refuses another test.
const mostTested = 100

// Test sends an event of the type testEvent to a webhook.
func (h *Hooks) Test(ctx context.Context, c *service.Caller, id string) (d *service.Delivery, err error) {
	now := page.Time{Time: time.Now().UTC()}
	err = h.service.Add(ctx, func(tx *service.Tx) error {
		w, err := get(ctx, tx, c, id)
		if err != nil {
			return err
		}
		waiting, err := service.Value[int](ctx, tx, "SELECT COUNT(*) FROM (SELECT 1 FROM delivery "+
			"WHERE state = ? AND webhook = ? LIMIT ?) AS waiting", service.DeliveryPending, id, mostTested)
		if err != nil {
			return err
		}
		if waiting == mostTested {
			return &service.Error{Code: service.ErrPlanLimit, Detail: fmt.Sprintf(
				"%d deliveries of the webhook wait to be sent: try again when fewer do", mostTested)}
		}
		event := service.Event{At: now, Type: testEvent, Account: w.Account, Actor: c.Actor(),
			Data: []byte(service.ToJSON(map[string]string{"webhook": id}))}
		d = &service.Delivery{ID: service.NewID(), Webhook: id, Type: testEvent, State: service.DeliveryPending,
			CreatedAt: now, NextAt: now}
		return errors.Join(insert(tx, d, &event), tx.Audit(c, "webhook.test", id, nil))
	})
	if err != nil {
		return nil, err
	}
	h.deliverer.forgive(id)
	return d, nil
}

// insert stores a new delivery of an event.
func insert(tx *service.Tx, d *service.Delivery, e *service.Event) error {
	return tx.Insert("delivery", "id, webhook, event, type, crawl, body, state, created_at, next_at",
		d.ID, d.Webhook, d.Event, d.Type, d.Crawl, e, d.State, d.CreatedAt, d.NextAt)
}

// queryDeliveries returns the deliveries that the condition selects.
func queryDeliveries(ctx context.Context, q service.Queryer, where string, args ...any) ([]service.Delivery, error) {
	return service.Collect(ctx, q, func(d *service.Delivery) []any {
		return []any{&d.ID, &d.Webhook, &d.Event, &d.Type, &d.Crawl, &d.State, &d.Attempts, &d.CreatedAt, &d.NextAt,
			&d.DoneAt, &d.LastStatus, &d.LastError}
	}, "SELECT id, webhook, event, type, crawl, state, attempts, created_at, CASE WHEN state = 'pending' THEN next_at "+
		"ELSE 0 END, done_at, last_status, last_error FROM delivery "+where, args...)
}
