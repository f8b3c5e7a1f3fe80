package service

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mapwright/mapwright/internal/service/db"
)

// Events are the durable events. Their ids ascend in the order in which they were committed.
type Events struct {
	db *db.DB

	mu    sync.Mutex
	added chan struct{} // guarded by mu; closed and replaced when events are added
}

func newEvents(d *db.DB) *Events { return &Events{db: d, added: make(chan struct{})} }

// Added is closed when events are added after this call. Call it before Since, so that none is missed between the two.
func (e *Events) Added() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.added
}

func (e *Events) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.added)
	e.added = make(chan struct{})
}

// Since returns the events that the filter selects, oldest first.
func (e *Events) Since(ctx context.Context, f EventFilter) ([]Event, error) {
	query, args := "SELECT id, at, type, account, crawl, generation, actor_key, actor_system, data_json FROM event WHERE id > ?", []any{f.After}
	if f.Account != "" {
		query, args = query+" AND account = ?", append(args, f.Account)
	}
	if f.Crawl != "" {
		query, args = query+" AND crawl = ?", append(args, f.Crawl)
	}
	return collect(ctx, e.db.Read(), scanEvent, query+" ORDER BY id LIMIT ?", append(args, cmp.Or(f.Limit, 1000))...)
}

// Last is the id of the newest event, or 0.
func (e *Events) Last(ctx context.Context) (id int64, err error) {
	err = e.db.Read().QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM event").Scan(&id)
	return id, err
}

func scanEvent(row scanner) (e Event, err error) {
	var at int64
	var data string
	err = row.Scan(&e.ID, &at, &e.Type, &e.Account, &e.Crawl, &e.Generation, &e.Actor.Key, &e.Actor.System, &data)
	e.At = timeOf(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return e, err
}

// Record records an event in the transaction. Its id and time are set.
func (tx *Tx) Record(e Event) error {
	tx.events = true
	return tx.change("INSERT INTO event (at, type, account, crawl, generation, actor_key, actor_system, data_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		millis(tx.now), e.Type, e.Account, e.Crawl, e.Generation, e.Actor.Key, e.Actor.System, string(e.Data))
}

// Now is the time of the transaction.
func (tx *Tx) Now() time.Time { return tx.now }

// Audit is the log of who did what.
type Audit struct{ db *db.DB }

// List returns entries, newest first. Account selects those of one account's actors, if it is given; before is the lowest id of the part of the
// list before, or 0.
func (a *Audit) List(ctx context.Context, account string, before int64, limit int) ([]AuditEntry, error) {
	query, args := "SELECT id, at, account, actor_key, actor_system, remote, action, object, data_json FROM audit WHERE (id < ? OR ? = 0)", []any{before, before}
	if account != "" {
		query, args = query+" AND account = ?", append(args, account)
	}
	return collect(ctx, a.db.Read(), func(row scanner) (e AuditEntry, err error) {
		var at int64
		var data string
		err = row.Scan(&e.ID, &at, &e.Account, &e.Actor.Key, &e.Actor.System, &e.Remote, &e.Action, &e.Object, &data)
		e.At = timeOf(at)
		if data != "" {
			e.Data = json.RawMessage(data)
		}
		return e, err
	}, query+" ORDER BY id DESC LIMIT ?", append(args, cmp.Or(limit, 100))...)
}

// Audit adds an entry to the audit log in the transaction. Data may be nil; it must not hold secrets.
func (tx *Tx) Audit(c *Caller, action, object string, data any) error {
	text := ""
	if data != nil {
		text = toJSON(data)
	}
	return tx.change("INSERT INTO audit (at, account, actor_key, actor_system, remote, action, object, data_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		millis(tx.now), c.Account.ID, c.Key, c.System, c.Remote, action, object, text)
}
