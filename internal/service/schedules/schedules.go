package schedules

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

// Schedules are all schedules of a service.
type Schedules struct {
	service *service.Service
	log     *slog.Logger
	wake    chan struct{} // holds one signal
	// write is Service.Write. Tests let it fail where a process would be killed.
	write func(ctx context.Context, fn func(tx *service.Tx) error) error
	// takeChange counts a change that an account makes, and reports whether it may make one now; nil means always.
	takeChange func(account string) bool
}

// New makes the schedules of a service. The log may be nil.
func New(s *service.Service, log *slog.Logger) *Schedules {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Schedules{service: s, log: log, wake: make(chan struct{}, 1), write: s.Write}
}

// LimitBy has the runs of schedules count as changes of their account. It is called before Run.
func (s *Schedules) LimitBy(takeChange func(account string) bool) { s.takeChange = takeChange }

// row is a schedule as it is stored.
type row struct {
	service.Schedule
	createdBy string          // id of a key
	scopes    []service.Scope // those of the maker, which the schedule's crawls have too
	firing    *firing
}

// firing is a recrawl that is being started. It is stored before the command and removed after it, so that after a kill
// in between the crawl tells whether the command was given.
type firing struct {
	Due        time.Time `json:"due"`
	Generation uint32    `json:"generation"` // of the crawl before the command
}

// columns are those of a row but for the submission, which may be large.
const columns = "id, account, name, cron, every, zone, enabled, crawl, recrawl_json, created_by, scopes_json, " +
	"firing_json, created_at, next_at, last_at, last_crawl, last_error"

// put stores a row.
func put(tx *service.Tx, r *row) error {
	submission, recrawl := "", ""
	if r.Submission != nil {
		submission = service.ToJSON(r.Submission)
	}
	if r.Recrawl != nil {
		recrawl = service.ToJSON(r.Recrawl)
	}
	return tx.Put("schedule", "id", columns+", submission_json, input_bytes", r.ID, r.Account, r.Name, r.Cron,
		r.Interval, r.Zone, r.Enabled, r.Crawl, recrawl, r.createdBy, r.scopes, r.firing, r.CreatedAt, r.NextAt,
		r.LastAt, r.LastCrawl, r.LastError, submission, len(submission)+len(recrawl))
}

// dest says where the columns go.
func (r *row) dest() []any {
	return []any{&r.ID, &r.Account, &r.Name, &r.Cron, &r.Interval, &r.Zone, &r.Enabled, &r.Crawl, &r.Recrawl,
		&r.createdBy, &r.scopes, &r.firing, &r.CreatedAt, &r.NextAt, &r.LastAt, &r.LastCrawl, &r.LastError}
}

// read returns a schedule without its submission. The error is [sql.ErrNoRows] if there is none.
func read(ctx context.Context, q service.Queryer, id string) (row, error) {
	return service.One(ctx, q, (*row).dest, "SELECT "+columns+" FROM schedule WHERE id = ?", id)
}

// readWhole returns a schedule with its submission. The error is [sql.ErrNoRows] if there is none.
func readWhole(ctx context.Context, q service.Queryer, id string) (row, error) {
	r, err := service.One(ctx, q, func(r *row) []any { return append(r.dest(), &r.Submission) },
		"SELECT "+columns+", submission_json FROM schedule WHERE id = ?", id)
	if r.Submission != nil {
		service.WithoutUserinfo(r.Submission.StartURLs)
	}
	return r, err
}

// shown is the schedule without the secrets of its settings: a key that only reads must not get them.
func (r *row) shown() *service.Schedule {
	s := r.Schedule
	if s.Submission != nil {
		copied := *s.Submission
		copied.Settings = config.Redact(copied.Settings)
		s.Submission = &copied
	}
	return &s
}

// get returns a row that the caller may see.
func get(ctx context.Context, q service.Queryer, c *service.Caller, id string) (*row, error) {
	r, err := readWhole(ctx, q, id)
	if errors.Is(err, sql.ErrNoRows) || err == nil && r.Account != c.Account.ID && !c.Has(service.ScopeAdmin) {
		err = &service.Error{Code: service.ErrNotFound, Detail: "there is no such schedule"}
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// List returns a part of the schedules of an account, the oldest first; of all accounts if the account is empty. The
// cursor is the id of the last one of the part before. They have no settings and the first start URLs only. A part ends
// earlier if its submissions are large.
func (s *Schedules) List(ctx context.Context, account, cursor string,
	limit int) (list service.List[service.Schedule], err error) {
	type entry struct {
		id    string
		bytes int
	}
	list.Items = []service.Schedule{}
	found, err := service.Collect(ctx, s.service.DB().Read(), func(e *entry) []any { return []any{&e.id, &e.bytes} },
		"SELECT id, input_bytes FROM schedule WHERE (account = ? OR ? = '') AND id > ? ORDER BY id LIMIT ?", account,
		account, cursor, limit+1)
	bytes := 0
	for i, e := range found { // one at a time: the submissions of all may be too large for memory
		if bytes += e.bytes; i == limit || i > 0 && bytes > service.PartBytes {
			list.NextCursor = found[i-1].id
			break
		}
		r, err := readWhole(ctx, s.service.DB().Read(), e.id)
		if errors.Is(err, sql.ErrNoRows) { // deleted meanwhile
			continue
		}
		if err != nil {
			return list, err
		}
		if r.Submission != nil {
			r.Submission.Settings, r.Submission.StartURLs = nil, service.FirstStarts(r.Submission.StartURLs)
		}
		list.Items = append(list.Items, r.Schedule)
	}
	return list, err
}

// Get returns a schedule.
func (s *Schedules) Get(ctx context.Context, c *service.Caller, id string) (*service.Schedule, error) {
	r, err := get(ctx, s.service.DB().Read(), c, id)
	if err != nil {
		return nil, err
	}
	return r.shown(), nil
}

// maxPerAccount bounds the schedules of an account.
const maxPerAccount = 1000

// Create makes a schedule. It is enabled unless the input says otherwise.
func (s *Schedules) Create(ctx context.Context, c *service.Caller, in Input) (*service.Schedule, error) {
	r := &row{
		Schedule: service.Schedule{ID: service.NewID(), Account: c.Account.ID, Enabled: true,
			CreatedAt: page.Time{Time: time.Now().UTC().Truncate(time.Second)}},
		createdBy: c.Key, scopes: c.Scopes,
	}
	in.applyTo(r)
	if err := s.check(ctx, c, r, true); err != nil {
		return nil, err
	}
	err := s.service.Add(ctx, func(tx *service.Tx) error {
		n, err := service.Value[int](ctx, tx, "SELECT COUNT(*) FROM schedule WHERE account = ?", r.Account)
		if err != nil {
			return err
		}
		if n >= maxPerAccount {
			return &service.Error{Code: service.ErrPlanLimit,
				Detail: fmt.Sprintf("an account may have %d schedules: delete one first", maxPerAccount)}
		}
		return errors.Join(put(tx, r), tx.CheckInput(r.Account), tx.Audit(c, "schedule.create", r.ID, nil))
	})
	if err != nil {
		return nil, err
	}
	s.Wake()
	return r.shown(), nil
}

// Edit changes a schedule. From then on its crawls have the scopes of the caller, but for an admin who changes neither
// the submission nor the crawl. To judge a change takes long if there are many start URLs, so it is done before the
// transaction, and once more if the schedule has changed or run meanwhile.
func (s *Schedules) Edit(ctx context.Context, c *service.Caller, id string, in Input) (*service.Schedule, error) {
	for {
		before, err := get(ctx, s.service.DB().Read(), c, id)
		if err != nil {
			return nil, err
		}
		after := *before
		in.applyTo(&after)
		if err := s.check(ctx, c, &after, in.starts() || after.Enabled); err != nil {
			return nil, err
		}
		if after.times() == before.times() && !before.NextAt.IsZero() {
			after.NextAt = before.NextAt // a run that is due is not lost
		}
		if in.Submission != nil || in.Crawl != nil || !c.Has(service.ScopeAdmin) {
			after.createdBy, after.scopes = c.Key, c.Scopes
		}
		err = s.service.Add(ctx, func(tx *service.Tx) error {
			now, err := get(ctx, tx, c, id)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(now, before) {
				return errEdited
			}
			err = errors.Join(put(tx, &after), tx.Audit(c, "schedule.edit", id, nil))
			if in.starts() { // else it is no larger, and must be disabled where the disk is used up
				err = errors.Join(err, tx.CheckInput(after.Account))
			}
			return err
		})
		if errors.Is(err, errEdited) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.Wake()
		return after.shown(), nil
	}
}

// Delete removes a schedule. The crawls that it has started stay.
func (s *Schedules) Delete(ctx context.Context, c *service.Caller, id string) error {
	return s.write(ctx, func(tx *service.Tx) error {
		if _, err := get(ctx, tx, c, id); err != nil {
			return err
		}
		return errors.Join(tx.Change("DELETE FROM schedule WHERE id = ?", id), tx.Audit(c, "schedule.delete", id, nil))
	})
}

// Wake says that something may be due. It does not block.
func (s *Schedules) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
