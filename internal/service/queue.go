package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
)

// entry is a crawl as the dispatcher sees it.
type entry struct {
	id, account, plan, profile string
	state                      State
	desired                    Desired
	priority                   int
	generation                 uint32
	queuedAt                   int64
	resumeFirst                bool
	trial                      trial
	wait                       WaitCode
	disk                       int64 // bytes, as they are stored
	planByAdmin                bool
	safePlan                   bool // set by the dispatcher
	isExtra                    bool // set by the dispatcher; it gets the slot for cancelled crawls
}

// isSafe says whether the crawl has the safe profile, or gets it by its plan when it starts.
func (e *entry) isSafe() bool { return e.profile == string(config.Safe) || e.safePlan }

// needsSafeSlot says whether the crawl waits for the slot of safe crawls. To write outputs needs none.
func (e *entry) needsSafeSlot() bool { return e.isSafe() && !e.mustFinish() }

// mustFinish says whether only the outputs of a crawl that does not run are left to write.
func (e *entry) mustFinish() bool { return e.state == Finishing || e.desired == DesiredCancel }

// loadEntries reads the crawls that the dispatcher has to do with, in the order of their age. Of those that are to be
// deleted it reads the ones in running, and of each account the first that do not run. Each step reads them, so they
// are found by indexes that have no others: an account may have any number of crawls that rest or are to be deleted.
func loadEntries(ctx context.Context, q Queryer, running []string) ([]*entry, error) {
	const first = 4 * mostRemovals // of an account; some cannot be deleted now
	const columns = "id, account, plan, plan_by_admin, profile, state, desired, priority, generation, queued_at, " +
		"resume_first, trial, wait_code, disk_bytes"
	running = append([]string{}, running...)
	return Collect(ctx, q, func(to **entry) []any {
		e := &entry{}
		*to = e
		return []any{&e.id, &e.account, &e.plan, &e.planByAdmin, &e.profile, &e.state, &e.desired, &e.priority,
			&e.generation, &e.queuedAt, &e.resumeFirst, &e.trial, &e.wait, &e.disk}
	}, "SELECT "+columns+" FROM crawl INDEXED BY crawl_due WHERE state IN ('queued', 'running', 'pausing', "+
		"'finishing') OR state = 'paused' AND (desired = 'cancel' OR wait_code IN ('account', 'disk', 'plan', 'quota', "+
		"'recovery')) UNION ALL SELECT "+columns+" FROM crawl WHERE state = 'deleting' AND id IN (SELECT value FROM json_each(?)) "+
		"UNION ALL SELECT "+columns+" FROM crawl WHERE id IN (SELECT c.id FROM account JOIN crawl AS c ON c.id IN "+
		"(SELECT d.id FROM crawl AS d INDEXED BY crawl_deleting WHERE d.account = account.id AND d.state = 'deleting' "+
		"AND d.id NOT IN (SELECT value FROM json_each(?)) ORDER BY d.queued_at, d.id LIMIT ?)) "+
		"ORDER BY queued_at, id", running, running, first)
}

// terms are what limits the crawls of an account now.
type terms struct {
	account  string
	plan     Plan
	disabled bool
	pages    PageUse
	disk     int64 // bytes of all crawls, as they are now if the plan limits them
	running  int   // crawls that hold a slot
	turn     int   // set by the dispatcher; the later the account's last start, the higher; 0: it has started none
}

// loadTerms reads the terms of the accounts of entries.
func loadTerms(ctx context.Context, q Queryer, entries []*entry, now time.Time) (map[string]*terms, error) {
	month := monthOf(now)
	owners := map[string]bool{}
	for _, e := range entries {
		owners[e.account] = true
	}
	list, err := Collect(ctx, q, func(t *terms) []any {
		return []any{&t.account, &t.disabled, &t.plan, &t.pages.Used, &t.pages.Granted, &t.disk}
	}, "SELECT account.id, account.disabled, plan.terms_json, "+
		"(SELECT COALESCE(SUM(pages), 0) FROM page_usage WHERE page_usage.account = account.id AND page_usage.month = "+
		"?), (SELECT COALESCE(SUM(granted), 0) FROM crawl WHERE crawl.account = account.id AND grant_month = ? AND "+
		"granted > 0), "+diskUse+" FROM account JOIN plan ON plan.name = account.plan WHERE account.id IN "+
		"(SELECT value FROM json_each(?))", month, month, slices.AppendSeq([]string{}, maps.Keys(owners)))
	all := map[string]*terms{}
	for i := range list {
		all[list[i].account] = &list[i]
	}
	return all, err
}

// loadStarted reads the accounts that have started crawls, in the order of their last starts.
func loadStarted(ctx context.Context, q Queryer) ([]string, error) {
	return Collect(ctx, q, Column[string], "SELECT account FROM (SELECT account, started_at FROM crawl UNION ALL "+
		"SELECT account, crawl_run.started_at FROM crawl_run JOIN crawl ON crawl.id = crawl) "+
		"WHERE started_at > 0 GROUP BY account ORDER BY MAX(started_at), account")
}

// quotaLeft says whether the account may use another page.
func (t *terms) quotaLeft() bool {
	return t.plan.PagesPerMonth == 0 || t.pages.Used+t.pages.Granted < t.plan.PagesPerMonth
}

// diskUsed says whether the account's crawls use all the disk that its plan allows.
func (t *terms) diskUsed() bool { return t.plan.DiskBytes > 0 && t.disk >= t.plan.DiskBytes }

// diskWait is what a crawl waits for if diskUsed is true.
func (t *terms) diskWait() *Waiting {
	return &Waiting{Code: WaitPlan,
		Detail: fmt.Sprintf("the account's crawls use the %d bytes of disk that plan %q allows: delete some; the "+
			"crawl goes on by itself then",
			t.plan.DiskBytes, t.plan.Name)}
}

// runningWait is what a crawl waits for if as many of its account run as the plan allows; nil if fewer run.
func (t *terms) runningWait() *Waiting {
	if t.plan.MaxCrawls == 0 || t.running < t.plan.MaxCrawls {
		return nil
	}
	return &Waiting{Code: WaitPlan, Detail: fmt.Sprintf("plan %q allows %d crawls at once, and so many run",
		t.plan.Name, t.plan.MaxCrawls)}
}

// hindrance says why a crawl of the account may not start now, however many slots are free; nil if it may.
func (t *terms) hindrance(now time.Time) *Waiting {
	wait := t.runningWait()
	switch {
	case t.disabled:
		return &Waiting{Code: WaitAccount, Detail: "the account is disabled"}
	case wait != nil:
		return wait
	case t.diskUsed():
		return t.diskWait()
	case !t.quotaLeft():
		return &Waiting{Code: WaitQuota, Detail: quotaDetail(&t.plan, now), Until: page.Time{Time: nextMonth(now)}}
	}
	return nil
}

// inOrder puts queued crawls into the order in which they start: first those that ran when the process ended, then by
// priority, then those of the account with the fewest running crawls, then those of the account whose last start is
// longest ago, then by age. Each crawl that is chosen counts as a running one of its account, and as its last start,
// for the choice of the next.
func inOrder(queued []*entry, accounts map[string]*terms) []*entry {
	slices.SortFunc(queued, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.queuedAt, b.queuedAt), cmp.Compare(a.id, b.id))
	})
	count, turns, last := map[string]int{}, map[string]int{}, 0
	for id, t := range accounts {
		count[id], turns[id], last = t.running, t.turn, max(last, t.turn)
	}
	before := map[*entry]int{} // crawls of the account that run before the entry
	for _, e := range queued {
		before[e] = count[e.account]
		count[e.account]++
	}
	byCount := func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(before[a], before[b]))
	}
	slices.SortStableFunc(queued, byCount)
	for rest := queued; len(rest) > 0; {
		n := 1
		for n < len(rest) && byCount(rest[0], rest[n]) == 0 {
			n++
		}
		slices.SortStableFunc(rest[:n], func(a, b *entry) int { // of each account one
			return cmp.Compare(turns[a.account], turns[b.account])
		})
		for _, e := range rest[:n] {
			last++
			turns[e.account] = last
		}
		rest = rest[n:]
	}
	return queued
}

// rank is the priority of a crawl, above all priorities if the crawl ran when the process ended.
func (e *entry) rank() int {
	if e.resumeFirst {
		return maxPriority + 1 + e.priority
	}
	return e.priority
}
