package service

import (
	"context"
	"math"
	"time"
)

const (
	pruneEvery = time.Minute
	pruneStep  = 1000 // rows that one transaction removes
	keptRuns   = 100  // ended generations of a crawl, and their reports

	pruned = "pruned" // the mark up to which events were removed
)

// prune removes events and entries of the audit log that were kept long enough, a bounded number at a time. It says
// whether there are more.
func (s *Service) prune(ctx context.Context, now time.Time) (more bool, err error) {
	for _, p := range []struct {
		table string
		keep  time.Duration
	}{{"event", s.o.KeepEvents}, {"audit", s.o.KeepAudit}} {
		if p.keep <= 0 {
			continue
		}
		again, err := s.pruneTable(ctx, p.table, now.Add(-p.keep), now)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// pruneTable removes the first rows of a table that were recorded before a time. Rows are in the order of their ids, so
// no row is removed behind one that stays, whatever the clock did. The time of a row in the future says nothing: it
// goes with the next row that is old.
func (s *Service) pruneTable(ctx context.Context, table string, before, now time.Time) (more bool, err error) {
	rows := "SELECT id FROM " + table + " WHERE "
	old, err := Value[int64](ctx, s.db.Read(), "SELECT COALESCE(("+rows+"at < ? AND id < COALESCE(("+rows+
		"at BETWEEN ? AND ? ORDER BY id LIMIT 1), ?) ORDER BY id DESC LIMIT 1), 0)", before, before, now, math.MaxInt64)
	if err != nil || old == 0 {
		return false, err
	}
	last, err := Value[int64](ctx, s.db.Read(), "SELECT MAX(id) FROM ("+rows+"id <= ? ORDER BY id LIMIT ?)", old,
		pruneStep)
	if err != nil {
		return false, err
	}
	more = last < old
	err = s.Write(ctx, func(tx *Tx) error {
		if table == "event" {
			// Webhooks are told of every event first.
			collected, err := Value[int64](ctx, tx, "SELECT COALESCE(MIN(event), ?) FROM cursor WHERE reader <> ?",
				last, pruned)
			if err != nil {
				return err
			}
			last = min(last, collected)
			if err := tx.Put("cursor", "reader", "reader, event", pruned, last); err != nil {
				return err
			}
		}
		return tx.Change("DELETE FROM "+table+" WHERE id <= ?", last)
	})
	return err == nil && more, err
}

// Gap says whether a client that has the events up to an id would miss some. It misses those that are not kept any
// more, or all of them if the id is of another database. after is the id with which it can go on.
func (e *Events) Gap(ctx context.Context, f EventFilter) (after int64, missing bool, err error) {
	removed, err := Value[int64](ctx, e.db.Read(), "SELECT COALESCE(MAX(event), 0) FROM cursor WHERE reader = ?",
		pruned)
	if err != nil {
		return 0, false, err
	}
	if f.After >= removed {
		last, err := e.Last(ctx)
		return min(f.After, last), f.After > last, err
	}
	if f.Crawl != "" {
		first, err := Value[int](ctx, e.db.Read(), "SELECT COUNT(*) FROM event WHERE crawl = ? AND type = ? AND "+
			"generation = 0", f.Crawl, CrawlQueued)
		if err != nil || first > 0 {
			return f.After, false, err // nothing of this crawl was removed
		}
	}
	return removed, true, nil
}
