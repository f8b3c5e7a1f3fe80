package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/page"
)

// Pages of the quota are reserved for a running crawl in blocks: granted pages are those that it may still count. When
// more are asked for, when the month turns and when the crawl stops, what it has counted since is booked: used pages
// move from the reservation into the usage of the month in which they were reserved. The count of the crawl shrinks
// only by a kill, after which it counts the same URLs again. So a count that is not above the booked one adds nothing.

// Bounds of a block, which is an eighth of the pages that are left: large blocks need few transactions, and near the
// end small blocks leave little reserved by a crawl that does not need it. A crawl has one block at most, however often
// it asks: a run that begins asks for what the one before it may have left.
const (
	mostGranted  = 500
	leastGranted = 10
)

// monthOf names a UTC month.
func monthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// nextMonth is when the UTC month of a time is over.
func nextMonth(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// pageAccount is the account of a crawl's pages, as it is stored.
type pageAccount struct {
	crawl, owner string
	counted      int64
	granted      int64
	month        string
}

func (tx *Tx) pageAccount(id string) (pageAccount, error) {
	return One(tx.ctx, tx, func(p *pageAccount) []any {
		return []any{&p.crawl, &p.owner, &p.counted, &p.granted, &p.month}
	}, "SELECT id, account, counted, granted, grant_month FROM crawl WHERE id = ?", id)
}

// book adds the pages that a crawl has counted to what its account has used, in the month in which they were reserved.
func (tx *Tx) book(p *pageAccount, counted int64) error {
	now := monthOf(tx.now)
	p.month = cmp.Or(p.month, now)
	more := max(0, counted-p.counted)
	if more > 0 {
		err := tx.Change("INSERT INTO page_usage (account, month, pages) VALUES (?, ?, ?) ON CONFLICT (account, "+
			"month) DO UPDATE SET pages = page_usage.pages + excluded.pages",
			p.owner, p.month, more)
		if err != nil {
			return err
		}
	}
	p.counted += more
	p.granted = max(0, p.granted-more)
	if p.month != now {
		p.month, p.granted = now, 0
	}
	return nil
}

// save stores what book and grants have changed.
func (p *pageAccount) save(tx *Tx) error {
	return tx.Change("UPDATE crawl SET counted = ?, granted = ?, grant_month = ? WHERE id = ?", p.counted, p.granted,
		p.month, p.crawl)
}

// planOf is the plan of an account.
func (tx *Tx) planOf(owner string) (Plan, error) {
	account, err := getAccount(tx.ctx, tx, owner)
	if err != nil {
		return Plan{}, err
	}
	return getPlan(tx.ctx, tx, account.Plan)
}

// left is how many pages of this month's quota are neither used nor reserved; math.MaxInt64 without a limit.
func (tx *Tx) left(owner string) (int64, error) {
	plan, err := tx.planOf(owner)
	if err != nil || plan.PagesPerMonth == 0 {
		return math.MaxInt64, err
	}
	use, err := pageUse(tx.ctx, tx, owner, monthOf(tx.now))
	return max(0, plan.PagesPerMonth-use.Used-use.Granted), err
}

// pageUse is how many pages of a month an account has used and reserved.
func pageUse(ctx context.Context, q Queryer, owner, month string) (PageUse, error) {
	return One(ctx, q, func(use *PageUse) []any { return []any{&use.Used, &use.Granted} },
		"SELECT (SELECT COALESCE(SUM(pages), 0) FROM page_usage WHERE account = ? AND month = ?), "+
			"(SELECT COALESCE(SUM(granted), 0) FROM crawl WHERE account = ? AND grant_month = ? AND granted > 0)",
		owner, month, owner, month)
}

// grants reserves pages for one running crawl. It implements crawl.Quota.
type grants struct {
	s     *Service
	crawl string
}

// Grant implements crawl.Quota.
func (g *grants) Grant(ctx context.Context, used int64) (total int64, err error) {
	err = g.s.Write(ctx, func(tx *Tx) error {
		p, err := tx.pageAccount(g.crawl)
		if err != nil {
			return err
		}
		if err := errors.Join(tx.book(&p, used), p.save(tx)); err != nil {
			return err
		}
		left, err := tx.left(p.owner)
		if err != nil {
			return err
		}
		if left == math.MaxInt64 {
			p.granted, total = 0, math.MaxInt64
			return p.save(tx)
		}
		left += p.granted // for this crawl
		p.granted = max(p.granted, min(left, max(leastGranted, min(mostGranted, left/8))))
		total = p.counted + p.granted
		return p.save(tx)
	})
	return total, err
}

// settle adds what a crawl has counted to what is used, and gives back what it does not need any more.
func (tx *Tx) settle(id string, counted int64) error {
	p, err := tx.pageAccount(id)
	if err != nil {
		return err
	}
	err = tx.book(&p, counted)
	p.granted = 0
	return errors.Join(err, p.save(tx))
}

// quotaReached records once in a month that an account has used its quota.
func (tx *Tx) quotaReached(r *row) error {
	month := monthOf(tx.now)
	n, err := tx.Exec("UPDATE page_usage SET told = 1 WHERE account = ? AND month = ? AND told = 0", r.Account, month)
	if err != nil || n == 0 {
		return err
	}
	return r.record(tx, QuotaReached, Actor{System: "quota"}, map[string]string{"period": month})
}

// diskUse is what an account's crawls have on disk and what the database holds of its submissions, for queries that
// read its row. Triggers keep both sums.
const diskUse = "account.disk_bytes + account.input_bytes"

// CheckInput refuses a transaction after which the submissions of an account alone would take the disk that its plan
// allows. Crawls wait when the account's disk is used up; their rows would grow without bound.
func (tx *Tx) CheckInput(owner string) error {
	plan, err := tx.planOf(owner)
	if err != nil || plan.DiskBytes == 0 {
		return err
	}
	bytes, err := Value[int64](tx.ctx, tx, "SELECT input_bytes FROM account WHERE id = ?", owner)
	if err != nil || bytes <= plan.DiskBytes {
		return err
	}
	return &Error{Code: ErrPlanLimit,
		Detail: fmt.Sprintf("start URLs and settings of the account's crawls and schedules would take %d bytes, and "+
			"plan %q allows %d bytes of disk: delete some", bytes, plan.Name, plan.DiskBytes)}
}

// Usage returns what an account has used in the present UTC month. Every caller may ask for its own account.
func (a *Accounts) Usage(ctx context.Context, id string) (Usage, error) {
	account, err := a.Get(ctx, id)
	if err != nil {
		return Usage{}, err
	}
	plan, err := a.plan(ctx, account.Plan)
	if err != nil {
		return Usage{}, err
	}
	finishing, err := Collect(ctx, a.s.db.Read(), Column[string], "SELECT id FROM crawl WHERE account = ? AND state = ?",
		account.ID, Finishing)
	if err != nil {
		return Usage{}, err
	}
	finishing = slices.DeleteFunc(finishing, func(id string) bool { // it waits for a slot
		return a.s.Crawls.dispatch.runner(id) == nil
	})
	now := time.Now()
	pages, err := pageUse(ctx, a.s.db.Read(), account.ID, monthOf(now))
	if err != nil {
		return Usage{}, err
	}
	u, err := One(ctx, a.s.db.Read(), func(u *Usage) []any {
		return []any{&u.Crawls.Running, &u.Crawls.Queued, &u.Disk.Used}
	}, "SELECT (SELECT COUNT(*) FROM crawl WHERE state IN ('running', 'pausing') AND crawl.account = account.id), "+
		"queued, "+diskUse+" FROM account WHERE id = ?", account.ID)
	u.Crawls.Running += len(finishing)
	u.Account, u.Plan, u.Period, u.ResetsAt = account.ID, account.Plan, monthOf(now), page.Time{Time: nextMonth(now)}
	pages.Limit, u.Crawls.Limit, u.Disk.Limit = plan.PagesPerMonth, plan.MaxCrawls, plan.DiskBytes
	u.Pages = pages
	return u, err
}

// quotaDetail says why a crawl waits for the quota.
func quotaDetail(plan *Plan, now time.Time) string {
	return fmt.Sprintf("the account has used the %d pages of plan %q for %s; the quota begins anew on %s, and the "+
		"crawl goes on then by itself", plan.PagesPerMonth, plan.Name, monthOf(now),
		nextMonth(now).Format(time.DateOnly))
}
