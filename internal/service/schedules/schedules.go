package schedules

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// Schema makes the table.
const Schema = `CREATE TABLE schedule (
	id      TEXT NOT NULL PRIMARY KEY,
	account TEXT NOT NULL,
	next_at INTEGER, -- Unix milliseconds; NULL if it is not due at any time
	data    TEXT NOT NULL -- JSON of row
);
CREATE INDEX schedule_account ON schedule (account, id);
CREATE INDEX schedule_next ON schedule (next_at) WHERE next_at IS NOT NULL;`

// DB is the database.
type DB interface {
	Read(ctx context.Context, fn func(*sql.Tx) error) error
	Write(ctx context.Context, fn func(*sql.Tx) error) error
}

// Crawls are the crawls of the service.
type Crawls interface {
	// Check says what is wrong with a submission, without making a crawl.
	Check(ctx context.Context, c *service.Caller, s service.Submission) error
	Submit(ctx context.Context, c *service.Caller, s service.Submission, idempotencyKey string) (*service.Crawl, error)
	Get(ctx context.Context, c *service.Caller, id string) (*service.Crawl, error)
	Command(ctx context.Context, c *service.Caller, id string, cmd service.Command, r service.Recrawl) (*service.Crawl, error)
}

// Journal keeps what happened, in the transaction that it is given.
type Journal interface {
	AddEvent(tx *sql.Tx, e service.Event) error
	AddAudit(tx *sql.Tx, c *service.Caller, action, object string, data any) error
}

// Options are what Schedules need.
type Options struct {
	DB      DB
	Crawls  Crawls
	Journal Journal
	// Account returns an account by its id.
	Account func(ctx context.Context, id string) (*service.Account, error)
	Log     *slog.Logger // nil means none
}

// Schedules are all schedules of the service.
type Schedules struct {
	o    Options
	wake chan struct{} // holds one signal
}

// New makes Schedules. The database has the table of Schema.
func New(o Options) *Schedules {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Schedules{o: o, wake: make(chan struct{}, 1)}
}

// row is a schedule as it is stored.
type row struct {
	service.Schedule
	Admin  bool    `json:"admin,omitempty"` // what it starts may use what an admin may
	Firing *firing `json:"firing,omitempty"`
}

// firing is a recrawl that is being started. It is stored before the command and removed after it, so that after a kill in between the crawl tells
// whether the command was given.
type firing struct {
	Due        time.Time `json:"due"`
	Generation uint32    `json:"generation"` // of the crawl before the command
}

func (r *row) unmarshal(data string, nextAt sql.NullInt64) error {
	if err := json.Unmarshal([]byte(data), r); err != nil {
		return fmt.Errorf("read a schedule: %w", err)
	}
	r.NextAt = page.Time{}
	if nextAt.Valid {
		r.NextAt = page.Time{Time: time.UnixMilli(nextAt.Int64).UTC()}
	}
	return nil
}

// put stores a row.
func put(ctx context.Context, tx *sql.Tx, r *row) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := sql.NullInt64{Int64: r.NextAt.Time.UnixMilli(), Valid: !r.NextAt.Time.IsZero()}
	_, err = tx.ExecContext(ctx, `INSERT INTO schedule (id, account, next_at, data) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at, data = excluded.data`, r.ID, r.Account, next, string(data))
	return err
}

// query returns the rows that the condition selects.
func query(ctx context.Context, tx *sql.Tx, where string, args ...any) (list []row, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT data, next_at FROM schedule `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var data string
		var next sql.NullInt64
		if err := rows.Scan(&data, &next); err != nil {
			return nil, err
		}
		var r row
		if err := r.unmarshal(data, next); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// get returns a row that the caller may see.
func get(ctx context.Context, tx *sql.Tx, c *service.Caller, id string) (*row, error) {
	list, err := query(ctx, tx, `WHERE id = ?`, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].Account != c.Account.ID && !c.Has(service.ScopeAdmin) {
		return nil, &service.Error{Code: service.ErrNotFound, Detail: "there is no such schedule"}
	}
	return &list[0], nil
}

// List returns the schedules of an account, the oldest first; of all accounts if the account is empty.
func (s *Schedules) List(ctx context.Context, account string) (list []service.Schedule, err error) {
	err = s.o.DB.Read(ctx, func(tx *sql.Tx) error {
		rows, err := query(ctx, tx, `WHERE account = ? OR ? = '' ORDER BY id`, account, account)
		for i := range rows {
			list = append(list, rows[i].Schedule)
		}
		return err
	})
	return list, err
}

// Get returns a schedule.
func (s *Schedules) Get(ctx context.Context, c *service.Caller, id string) (found *service.Schedule, err error) {
	err = s.o.DB.Read(ctx, func(tx *sql.Tx) error {
		r, err := get(ctx, tx, c, id)
		if err == nil {
			found = &r.Schedule
		}
		return err
	})
	return found, err
}

// maxPerAccount bounds the schedules of an account.
const maxPerAccount = 1000

// Create makes a schedule. It is enabled unless the input says otherwise.
func (s *Schedules) Create(ctx context.Context, c *service.Caller, in Input) (*service.Schedule, error) {
	now := time.Now().UTC().Truncate(time.Second)
	// Ids are in the order of creation.
	id := fmt.Sprintf("s%011x%s", now.UnixMilli(), strings.ToLower(rand.Text()[:10]))
	r := &row{Schedule: service.Schedule{ID: id, Account: c.Account.ID, Enabled: true, CreatedAt: page.Time{Time: now}}, Admin: c.Has(service.ScopeAdmin)}
	in.applyTo(r)
	if err := s.check(ctx, c, r); err != nil {
		return nil, err
	}
	err := s.o.DB.Write(ctx, func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM schedule WHERE account = ?`, r.Account).Scan(&n); err != nil {
			return err
		}
		if n >= maxPerAccount {
			return &service.Error{Code: service.ErrPlanLimit, Detail: fmt.Sprintf("an account may have %d schedules: delete one first", maxPerAccount)}
		}
		return errors.Join(put(ctx, tx, r), s.o.Journal.AddAudit(tx, c, "schedule.create", r.ID, nil))
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	return &r.Schedule, nil
}

// Edit changes a schedule.
func (s *Schedules) Edit(ctx context.Context, c *service.Caller, id string, in Input) (*service.Schedule, error) {
	var before *row
	err := s.o.DB.Read(ctx, func(tx *sql.Tx) (err error) {
		before, err = get(ctx, tx, c, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The check may ask the database itself, so it is not made in the transaction.
	checked := *before
	in.applyTo(&checked)
	checked.Admin = c.Has(service.ScopeAdmin) // what it starts is what this caller may start
	if err := s.check(ctx, c, &checked); err != nil {
		return nil, err
	}
	var after *row
	err = s.o.DB.Write(ctx, func(tx *sql.Tx) (err error) {
		if after, err = get(ctx, tx, c, id); err != nil {
			return err
		}
		in.applyTo(after)
		after.Admin, after.Zone, after.NextAt = checked.Admin, checked.Zone, checked.NextAt
		return errors.Join(put(ctx, tx, after), s.o.Journal.AddAudit(tx, c, "schedule.edit", id, in))
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	return &after.Schedule, nil
}

// Delete removes a schedule. The crawls that it has started stay.
func (s *Schedules) Delete(ctx context.Context, c *service.Caller, id string) error {
	return s.o.DB.Write(ctx, func(tx *sql.Tx) error {
		if _, err := get(ctx, tx, c, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM schedule WHERE id = ?`, id)
		return errors.Join(err, s.o.Journal.AddAudit(tx, c, "schedule.delete", id, nil))
	})
}

// Wake says that something may be due. It does not block.
func (s *Schedules) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
