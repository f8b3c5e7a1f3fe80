package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/service/db"
)

// Events are the durable events. Their ids ascend in the order in which they were committed.
type Events struct {
	db *db.DB

	mu    sync.Mutex
	added chan struct{} // guarded by mu; closed and replaced when events are added

	// The newest events: each is read from the database once, and not by every client that waits for it.
	changed atomic.Bool // there may be events in the database that are not here
	recent  sync.Mutex
	loaded  bool    // guarded by recent
	before  int64   // guarded by recent; all events with higher ids are here
	events  []Event // guarded by recent; oldest first
}

func newEvents(d *db.DB) *Events {
	e := &Events{db: d, added: make(chan struct{})}
	e.changed.Store(true)
	return e
}

// Added is closed when events are added after this call. Call it before Since, so that none is missed between the two.
func (e *Events) Added() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.added
}

func (e *Events) tell() {
	e.changed.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.added)
	e.added = make(chan struct{})
}

// Since returns the events that the filter selects, oldest first.
func (e *Events) Since(ctx context.Context, f EventFilter) ([]Event, error) {
	f.Limit = cmp.Or(f.Limit, 1000)
	events, known, err := e.recentSince(ctx, &f)
	if known || err != nil {
		return events, err
	}
	return e.read(ctx, &f)
}

// read reads events from the database.
func (e *Events) read(ctx context.Context, f *EventFilter) ([]Event, error) {
	query, args := "SELECT id, at, type, account, crawl, generation, actor_key, actor_system, data_json FROM event "+
		"WHERE id > ?", []any{f.After}
	if f.Account != "" {
		query, args = query+" AND account = ?", append(args, f.Account)
	}
	if f.Crawl != "" {
		query, args = query+" AND crawl = ?", append(args, f.Crawl)
	}
	return Collect(ctx, e.db.Read(), func(e *Event) []any {
		return []any{&e.ID, &e.At, &e.Type, &e.Account, &e.Crawl, &e.Generation, &e.Actor.Key, &e.Actor.System, &e.Data}
	}, query+" ORDER BY id LIMIT ?", append(args, f.Limit)...)
}

// recentMost is how many events are kept in memory at least, if there are so many. Twice as many are kept at most.
const recentMost = 4096

// recentSince returns the events that the filter selects, if all events after the one it names are known.
func (e *Events) recentSince(ctx context.Context, f *EventFilter) (found []Event, known bool, err error) {
	e.recent.Lock()
	defer e.recent.Unlock()
	if err := e.updateLocked(ctx); err != nil {
		return nil, false, err
	}
	if f.After < e.before {
		return nil, false, nil
	}
	from, _ := slices.BinarySearchFunc(e.events, f.After+1, func(e Event, id int64) int {
		return cmp.Compare(e.ID,
			id)
	})
	found = []Event{}
	for i := from; i < len(e.events) && len(found) < f.Limit; i++ {
		if one := &e.events[i]; (f.Account == "" || one.Account == f.Account) &&
			(f.Crawl == "" || one.Crawl == f.Crawl) {
			found = append(found, *one)
		}
	}
	return found, true, nil
}

// updateLocked reads the events that were added.
func (e *Events) updateLocked(ctx context.Context) (err error) {
	if !e.changed.Swap(false) {
		return nil
	}
	defer func() {
		if err != nil {
			e.changed.Store(true)
		}
	}()
	if !e.loaded {
		if e.before, err = e.Last(ctx); err != nil {
			return err
		}
		e.loaded = true
	}
	for {
		after := e.before
		if n := len(e.events); n > 0 {
			after = e.events[n-1].ID
		}
		more, err := e.read(ctx, &EventFilter{After: after, Limit: recentMost})
		if err != nil {
			return err
		}
		e.events = append(e.events, more...)
		if over := len(e.events) - recentMost; over > recentMost {
			e.before = e.events[over-1].ID
			e.events = slices.Clone(e.events[over:])
		}
		if len(more) < recentMost {
			return nil
		}
	}
}

// Last is the id of the newest event, whether or not it is still kept, or 0.
func (e *Events) Last(ctx context.Context) (int64, error) {
	return Value[int64](ctx, e.db.Read(), "SELECT COALESCE(MAX(id), 0) FROM (SELECT MAX(id) AS id FROM event UNION "+
		"ALL SELECT event FROM cursor WHERE reader = ?) AS ids", pruned)
}

// Record records an event in the transaction. Its id and time are set.
func (tx *Tx) Record(e Event) error {
	tx.events = append(tx.events, e)
	return tx.Insert("event", "at, type, account, crawl, generation, actor_key, actor_system, data_json",
		tx.now, e.Type, e.Account, e.Crawl, e.Generation, e.Actor.Key, e.Actor.System, e.Data)
}

// Now is the time of the transaction.
func (tx *Tx) Now() time.Time { return tx.now }

// AuditLog returns entries of the log of who did what, newest first. Account selects those of one account's actors, if
// it is given; before is the lowest id of the part of the list before, or 0.
func (a *Accounts) AuditLog(ctx context.Context, account string, before int64, limit int) ([]AuditEntry, error) {
	query, args := "SELECT id, at, account, actor_key, actor_system, remote, action, object, data_json FROM audit "+
		"WHERE (id < ? OR ? = 0)", []any{before, before}
	if account != "" {
		query, args = query+" AND account = ?", append(args, account)
	}
	return Collect(ctx, a.s.db.Read(), func(e *AuditEntry) []any {
		return []any{&e.ID, &e.At, &e.Account, &e.Actor.Key, &e.Actor.System, &e.Remote, &e.Action, &e.Object, &e.Data}
	}, query+" ORDER BY id DESC LIMIT ?", append(args, cmp.Or(limit, 100))...)
}

// mostAudited bounds, in bytes, what an entry of the audit log says beside action and object, unless an admin acts.
// Entries stay for years, and count for no plan.
const mostAudited = 4 << 10

// Audit adds an entry to the audit log in the transaction. Data may be nil; it must not hold secrets. A caller whose key
// or session has ended is refused.
func (tx *Tx) Audit(c *Caller, action, object string, data any) error {
	if err := tx.checkCaller(c); err != nil {
		return err
	}
	if n := len(ToJSON(data)); n > mostAudited && !c.Has(ScopeAdmin) {
		data = map[string]int{"bytes_left_out": n}
	}
	return tx.Insert("audit", "at, account, actor_key, actor_system, remote, action, object, data_json",
		tx.now, c.Account.ID, c.Key, c.System, c.Remote, action, object, strings.TrimPrefix(ToJSON(data), "null"))
}

// checkCaller looks at the key and the session of a caller again: they may have ended since the request began, of which
// the body can take its time.
func (tx *Tx) checkCaller(c *Caller) error {
	if c.Key == "" {
		return nil
	}
	key, err := One(tx.ctx, tx, keyDest, selectKey+"WHERE id = ?", c.Key)
	if errors.Is(err, sql.ErrNoRows) || err == nil && key.State() != KeyValid {
		return errBadKey
	}
	if err != nil || c.session == "" {
		return err
	}
	n, err := Value[int](tx.ctx, tx, "SELECT COUNT(*) FROM session WHERE hash = ? AND expires_at > ?", c.session, tx.now)
	if err == nil && n == 0 {
		err = errSessionEnded
	}
	return err
}
