package schedules

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
)

const (
	// pollEvery bounds how long it takes until a jump of the clock is noticed, and how soon something is tried again
	// that the service could not do.
	pollEvery = 30 * time.Second
	// setBack is how far the clock may be set back without running again what has run.
	setBack = 2 * time.Hour
)

// Run starts what is due until ctx ends.
func (s *Schedules) Run(ctx context.Context) {
	r := rounds{aside: map[string]time.Time{}}
	for {
		next, err := s.startDue(ctx, &r)
		if err != nil && ctx.Err() == nil {
			s.log.Error("cannot start what is scheduled; trying again", "error", err, "in", pollEvery)
		}
		wait := pollEvery
		if !next.IsZero() {
			wait = min(wait, max(0, time.Until(next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			clear(r.aside)
		case <-time.After(wait):
		}
	}
}

// rounds is what Run keeps from one round to the next.
type rounds struct {
	aside map[string]time.Time // schedules that stay due after a look at them, and until when they are left alone
	last  map[string]bool      // accounts that had their turn in the last round
}

// due is a schedule to look at.
type due struct {
	id, account string
	at          page.Time
}

// startDue starts one schedule of each account that has one due now, so that many of one account do not hold up those
// of others. Accounts that were not in the last round go first. It returns when the next schedule is due; zero if none
// is.
func (s *Schedules) startDue(ctx context.Context, r *rounds) (next time.Time, err error) {
	now := time.Now()
	list, err := service.Collect(ctx, s.service.DB().Read(),
		func(d *due) []any { return []any{&d.id, &d.account, &d.at} }, "SELECT id, account, next_at FROM schedule "+
			"WHERE enabled = 1 AND next_at > 0 AND (next_at <= ? OR created_at > ? OR last_at > ?) ORDER BY next_at, id",
		now, now.Add(setBack), now.Add(setBack))
	if err != nil {
		return next, err
	}
	list = slices.DeleteFunc(list, func(d due) bool { return now.Before(r.aside[d.id]) })
	slices.SortStableFunc(list, func(a, b due) int {
		switch {
		case r.last[a.account] == r.last[b.account]:
			return 0
		case r.last[b.account]:
			return -1
		}
		return 1
	})
	var errs []error
	r.last = map[string]bool{}
	maps.DeleteFunc(r.aside, func(_ string, until time.Time) bool { return !now.Before(until) })
	for _, d := range list {
		if r.last[d.account] {
			next = now // in another round
			continue
		}
		r.last[d.account] = true
		err := s.look(ctx, d.id, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("schedule %s: %w", d.id, err))
		}
		if err != nil || d.at.After(now) {
			r.aside[d.id] = now.Add(pollEvery)
		}
	}
	if next.IsZero() {
		var at int64
		at, err = service.Value[int64](ctx, s.service.DB().Read(),
			"SELECT COALESCE(MIN(next_at), 0) FROM schedule WHERE enabled = 1 AND next_at > ?", now)
		next = service.TimeOf(at).Time
	}
	return next, errors.Join(append(errs, err)...)
}

// look starts a schedule that is due. One that is not was perhaps computed while the clock was far ahead: it is
// computed anew.
func (s *Schedules) look(ctx context.Context, id string, now time.Time) error {
	r, err := read(ctx, s.service.DB().Read(), id)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && r.NextAt.IsZero(): // deleted or disabled meanwhile
		return nil
	case err != nil:
		return err
	case r.NextAt.After(now):
		when, _, err := r.when()
		before := r.NextAt
		if r.setNext(when, now); err != nil || r.NextAt.Equal(before.Time) {
			return err
		}
		return s.update(ctx, &r, nil)
	}
	return s.start(ctx, &r)
}

// start starts the run of a schedule that is due, or skips it. An error means that it stays due.
func (s *Schedules) start(ctx context.Context, r *row) error {
	account, err := s.service.Accounts.Get(ctx, r.Account)
	if err != nil {
		return err
	}
	c := &service.Caller{Account: account, System: "schedule", Schedule: r.ID, Scopes: r.scopes}
	var id string
	if r.Crawl == "" {
		id, err = s.submit(ctx, c, r)
	} else {
		id, err = s.recrawl(ctx, c, r)
	}
	refused, ok := errors.AsType[*service.Error](err)
	switch {
	case err == nil:
		s.log.Info("a schedule has started a crawl", "schedule", r.ID, "crawl", id)
		r.LastAt, r.LastCrawl, r.LastError = page.Time{Time: time.Now().UTC()}, id, ""
		return s.update(ctx, r, nil)
	case ok && refused.Code != service.ErrUnavailable:
		return s.skip(ctx, c, r, id, refused)
	}
	return err
}

// errUnfinished is the reason to skip a run: the last one has not ended.
func errUnfinished(id string, state service.State) error {
	return &service.Error{Code: service.ErrState, State: state,
		Detail: fmt.Sprintf("the last run has not ended: crawl %s is %s", id, state)}
}

// errEdited means that a schedule has changed since it was read. It is looked at again.
var errEdited = errors.New("it was edited just now")

// submit submits the crawl of a schedule. The idempotency key prevents a second crawl after a kill between this and the
// update of the row.
func (s *Schedules) submit(ctx context.Context, c *service.Caller, r *row) (id string, err error) {
	if r.LastCrawl != "" {
		last, err := s.service.Crawls.Brief(ctx, c, r.LastCrawl)
		if err == nil && !last.State.Ended() && last.State != service.Deleting {
			return last.ID, errUnfinished(last.ID, last.State)
		}
		if of, ok := errors.AsType[*service.Error](err); err != nil && (!ok || of.Code != service.ErrNotFound) {
			return "", err
		}
	}
	// What is submitted may be large, so it is read when nothing else is in the way.
	key := fmt.Sprintf("schedule %s %d", r.ID, r.NextAt.Time.UnixMilli())
	if err := s.mayStart(ctx, c, key); err != nil {
		return "", err
	}
	whole, err := readWhole(ctx, s.service.DB().Read(), r.ID)
	if errors.Is(err, sql.ErrNoRows) || err == nil && whole.Submission == nil {
		err = errEdited
	}
	if err != nil {
		return "", err
	}
	c.Scopes = whole.scopes // those of the one who gave the submission
	crawl, err := s.service.Crawls.Submit(ctx, c, *whole.Submission, key)
	if err != nil {
		return "", err
	}
	return crawl.ID, nil
}

// mayStart refuses a run if too many crawls of the account wait. Else it counts the run as a change of its account, as
// if one of its keys had started it; admins are not bound.
func (s *Schedules) mayStart(ctx context.Context, c *service.Caller, key string) error {
	if err := s.service.Crawls.MayQueue(ctx, c, key); err != nil {
		return err
	}
	if s.mayChange(c) {
		return nil
	}
	return &service.Error{Code: service.ErrRateLimit, Detail: "the account makes too many changes: keys and schedules " +
		"together may make one per second in the long run"}
}

// mayChange counts a change of an account, and reports whether it may make one now.
func (s *Schedules) mayChange(c *service.Caller) bool {
	return s.takeChange == nil || c.Has(service.ScopeAdmin) || s.takeChange(c.Account.ID)
}

// recrawl starts another generation of a crawl.
func (s *Schedules) recrawl(ctx context.Context, c *service.Caller, r *row) (id string, err error) {
	crawl, err := s.service.Crawls.Brief(ctx, c, r.Crawl)
	if err != nil {
		return r.Crawl, err
	}
	due := r.NextAt.Time
	if r.firing != nil && r.firing.Due.Equal(due) && (crawl.Generation > r.firing.Generation || !crawl.State.Ended()) {
		return crawl.ID, nil // the command was given before the process ended
	}
	if !crawl.State.Ended() {
		return crawl.ID, errUnfinished(crawl.ID, crawl.State)
	}
	if err := s.mayStart(ctx, c, ""); err != nil {
		return crawl.ID, err
	}
	r.firing = &firing{Due: due, Generation: crawl.Generation}
	err = s.write(ctx, func(tx *service.Tx) error {
		return tx.Change("UPDATE schedule SET firing_json = ? WHERE id = ?", r.firing, r.ID)
	})
	if err != nil {
		return "", err
	}
	_, err = s.service.Crawls.Command(ctx, c, crawl.ID, service.CommandRecrawl, r.Recrawl)
	return crawl.ID, err
}

// skip notes that a run is not started. It is an event, and a line of the log, unless the run before was skipped for
// the same reason: a schedule may be due every minute for ever. Another state of an unfinished crawl is no other
// reason. Another reason is a change of the account, since a user can make it change for many schedules at once.
func (s *Schedules) skip(ctx context.Context, c *service.Caller, r *row, crawl string, refused *service.Error) error {
	reason, before := refused.Error(), r.LastError
	r.LastError = reason
	isSame := strings.HasPrefix(before, strings.TrimSuffix(reason, string(refused.State)))
	if before != "" && (isSame || refused.Code == service.ErrRateLimit || !s.mayChange(c)) {
		return s.update(ctx, r, nil)
	}
	s.log.Warn("a run of a schedule is skipped", "schedule", r.ID, "reason", reason)
	data := service.ToJSON(map[string]string{"schedule": r.ID, "name": r.Name, "reason": reason})
	event := service.Event{Type: service.ScheduleSkipped, Account: r.Account, Crawl: crawl,
		Actor: service.Actor{System: "schedule"}, Data: []byte(data)}
	return s.update(ctx, r, &event)
}

// update records the last run of a row and computes when it is due next, in one transaction with an event, if there is
// one. What a user has changed meanwhile stays.
func (s *Schedules) update(ctx context.Context, r *row, event *service.Event) error {
	return s.write(ctx, func(tx *service.Tx) error {
		now, err := read(ctx, tx, r.ID)
		if errors.Is(err, sql.ErrNoRows) { // deleted meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if now.Enabled {
			when, _, err := now.when()
			if err != nil {
				return err
			}
			now.setNext(when, time.Now())
		}
		err = tx.Change("UPDATE schedule SET last_at = ?, last_crawl = ?, last_error = ?, next_at = ?, "+
			"firing_json = '' WHERE id = ?", r.LastAt, r.LastCrawl, r.LastError, now.NextAt, r.ID)
		if err != nil || event == nil {
			return err
		}
		return tx.Record(*event)
	})
}
