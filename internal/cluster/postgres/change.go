package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Change implements [cluster.Members].
func (e *Engine) Change(ctx context.Context, s cluster.Session, ch cluster.Change) (bool, error) {
	return ask(ctx, e, "change the crawl", func(tx pgx.Tx) (bool, error) {
		if err := lockCrawl(ctx, tx, s.Crawl); err != nil {
			return false, err
		}
		c := &changer{tx: tx, session: s}
		switch ch := ch.(type) {
		case cluster.SetState:
			return c.setState(ctx, ch)
		case cluster.SetPlan:
			return c.setPlan(ctx, ch)
		case cluster.RaiseLevel:
			return c.raiseLevel(ctx, ch)
		case cluster.Grant:
			return c.grant(ctx, ch)
		case cluster.TakeToken:
			return c.takeToken(ctx, ch)
		}
		return false, usage("unknown change %T", ch)
	})
}

// A changer makes one change, in a transaction that has the crawl's row locked.
type changer struct {
	tx      pgx.Tx
	session cluster.Session
}

// crawl locks the session's row, checks that the session has not ended, and reads the crawl's row and who decided its
// state.
func (c *changer) crawl(ctx context.Context) (row cluster.Crawl, decidedBy []byte, err error) {
	if _, _, err := lockSessions(ctx, c.tx, c.session); err != nil {
		return row, nil, err
	}
	row, err = scanCrawl(c.tx.QueryRow(ctx, `SELECT `+crawlColumns+`, decided_by FROM mapwright_crawl WHERE id = $1`,
		c.session.Crawl[:]), &decidedBy)
	return row, decidedBy, err
}

func (c *changer) setState(ctx context.Context, ch cluster.SetState) (bool, error) {
	row, by, err := c.crawl(ctx)
	switch {
	case err != nil:
		return false, err
	case row.State == ch.To && row.Reason == ch.Reason && bytes.Equal(by, c.session.ID[:]):
		return true, nil
	case row.State != ch.From:
		return false, nil
	}
	sums, err := c.sum(ctx)
	if err != nil {
		return false, err
	}
	if ch.If == cluster.IfComplete && !sums.complete() || ch.If == cluster.IfLimitReached &&
		!sums.limitReached(row.MaxURLs) {
		return false, nil
	}
	if err := countTime(ctx, c.tx, c.session.Crawl); err != nil {
		return false, err
	}
	if ch.NewRun {
		if err := c.set(ctx, `run = run + 1, begun = clock_timestamp(), begun_used_us = used_us, begun_counted = $2`,
			sums.counted); err != nil {
			return false, err
		}
	}
	if ch.Anew {
		if err := c.beginAnew(ctx); err != nil {
			return false, err
		}
	}
	return true, c.set(ctx, `state = $2, reason = $3, decided_by = $4`, string(ch.To), ch.Reason, c.session.ID[:])
}

// beginAnew sets the level and all grants to 0. It locks the partitions in their order, as commits do.
func (c *changer) beginAnew(ctx context.Context) error {
	for _, statement := range []string{
		`SELECT part FROM mapwright_part WHERE crawl = $1 ORDER BY part FOR UPDATE`,
		`UPDATE mapwright_part SET granted = 0 WHERE crawl = $1 AND granted > 0`,
	} {
		if _, err := c.tx.Exec(ctx, statement, c.session.Crawl[:]); err != nil {
			return err
		}
	}
	return c.set(ctx, `level = 0, granted = 0`)
}

func (c *changer) setPlan(ctx context.Context, ch cluster.SetPlan) (bool, error) {
	if _, _, err := lockSessions(ctx, c.tx, c.session); err != nil {
		return false, err
	}
	var version, maxURLs uint64
	var plan []byte
	err := c.tx.QueryRow(ctx, `SELECT plan_version, plan, max_urls FROM mapwright_crawl WHERE id = $1`,
		c.session.Crawl[:]).Scan(&version, &plan, &maxURLs)
	switch {
	case err != nil:
		return false, err
	case version == ch.Version+1 && bytes.Equal(plan, ch.Plan) && maxURLs == ch.MaxURLs:
		return true, nil
	case version != ch.Version:
		return false, nil
	}
	return true, c.set(ctx, `plan_version = $2, plan = $3, max_urls = $4`, int64(version+1), notNull(ch.Plan),
		int64(ch.MaxURLs))
}

func (c *changer) raiseLevel(ctx context.Context, ch cluster.RaiseLevel) (bool, error) {
	row, _, err := c.crawl(ctx)
	switch {
	case err != nil:
		return false, err
	case row.Level == ch.To:
		return true, nil
	case row.Level != ch.From || ch.To < ch.From:
		return false, nil
	}
	if sums, err := c.sum(ctx); err != nil || !sums.mayRaise(ch.To) {
		return false, err
	}
	return true, c.set(ctx, `level = $2`, int64(ch.To))
}

func (c *changer) grant(ctx context.Context, ch cluster.Grant) (bool, error) {
	row, _, err := c.crawl(ctx)
	if err != nil {
		return false, err
	}
	found, err := readParts(ctx, c.tx, c.session.Crawl, []int16{int16(ch.Partition)}, "FOR UPDATE")
	switch {
	case err != nil:
		return false, err
	case len(found) == 0 || found[0].Owner != c.session.ID || found[0].Epoch != ch.Epoch:
		return false, fmt.Errorf("partition %d: %w", ch.Partition, cluster.ErrFenced)
	case found[0].Granted == ch.To:
		return true, nil
	}
	granted := row.Granted - ch.From + ch.To
	if found[0].Granted != ch.From || row.State != cluster.Running || granted > row.MaxURLs {
		return false, nil
	}
	_, err = c.tx.Exec(ctx, `UPDATE mapwright_part SET granted = $3 WHERE crawl = $1 AND part = $2`, c.session.Crawl[:],
		int16(ch.Partition), int64(ch.To))
	if err != nil {
		return false, err
	}
	return true, c.set(ctx, `granted = $2`, int64(granted))
}

func (c *changer) takeToken(ctx context.Context, ch cluster.TakeToken) (bool, error) {
	row, _, err := c.crawl(ctx)
	if err != nil {
		return false, err
	}
	var stored []byte
	err = c.tx.QueryRow(ctx, `SELECT holder FROM mapwright_token WHERE crawl = $1 AND name = $2`, c.session.Crawl[:],
		ch.Name).Scan(&stored)
	missing := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !missing {
		return false, err
	}
	var holder cluster.SessionID
	copy(holder[:], stored)
	sessions, now, err := lockSessions(ctx, c.tx, c.session, holder)
	switch {
	case err != nil:
		return false, err
	case missing:
		return false, nil
	case holder == c.session.ID:
		return true, nil
	case row.State != cluster.Running:
		return false, nil
	}
	take, ends := mayTake(sessions[c.session.ID], sessions[holder], now)
	if !take {
		return false, nil
	}
	if ends {
		if err := endSession(ctx, c.tx, c.session.Crawl, holder); err != nil {
			return false, err
		}
	}
	// A commit that began before the holder was locked may have released the token.
	tag, err := c.tx.Exec(ctx, `UPDATE mapwright_token SET holder = $3 WHERE crawl = $1 AND name = $2 AND holder = $4`,
		c.session.Crawl[:], ch.Name, c.session.ID[:], holder[:])
	return tag.RowsAffected() == 1, err
}

// set changes columns of the crawl's row.
func (c *changer) set(ctx context.Context, columns string, args ...any) error {
	_, err := c.tx.Exec(ctx, `UPDATE mapwright_crawl SET `+columns+` WHERE id = $1`,
		append([]any{c.session.Crawl[:]}, args...)...)
	return err
}

// sums are what conditions are made of, at one moment.
type sums struct {
	working, busy, counted int64
	least                  *int64
	waiting, held          bool // hand-overs, tokens
}

// sum is one statement, so it sees one snapshot, and begins after the crawl's row was
// locked: a token that another session took before is seen.
func (c *changer) sum(ctx context.Context) (s sums, err error) {
	err = c.tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE NOT idle), count(*) FILTER (WHERE busy > 0),
			coalesce(sum(counted), 0)::bigint, min(least), EXISTS (SELECT 1 FROM `+inboxTable(c.session.Crawl)+`),
			EXISTS (SELECT 1 FROM mapwright_token WHERE crawl = $1)
		FROM mapwright_part WHERE crawl = $1`, c.session.Crawl[:]).
		Scan(&s.working, &s.busy, &s.counted, &s.least, &s.waiting, &s.held)
	return s, err
}

// complete is Snapshot.Complete.
func (s *sums) complete() bool { return s.working == 0 && !s.waiting && !s.held }

// limitReached is Snapshot.LimitReached.
func (s *sums) limitReached(maxURLs uint64) bool {
	return maxURLs > 0 && uint64(s.counted) >= maxURLs && s.busy == 0
}

// mayRaise is Snapshot.MayRaise.
func (s *sums) mayRaise(depth uint32) bool {
	return (s.least == nil || *s.least >= int64(depth)) && !s.waiting && !s.held
}
