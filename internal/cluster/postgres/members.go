package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/mapwright/mapwright/internal/cluster"
)

// countTime adds the time since the last call to what the crawl has used, unless no machine was there meanwhile. It
// locks the crawl.
func countTime(ctx context.Context, tx pgx.Tx, id cluster.CrawlID) error {
	tag, err := tx.Exec(ctx,
		`UPDATE mapwright_crawl SET used_us = used_us + `+sinceActive+`, active = clock_timestamp() WHERE id = $1`,
		id[:])
	if err == nil && tag.RowsAffected() == 0 {
		err = cluster.ErrNoCrawl
	}
	return err
}

// Join implements [cluster.Members].
func (e *Engine) Join(ctx context.Context, s cluster.Session) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		if err := countTime(ctx, tx, s.Crawl); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO mapwright_session
				(crawl, id, machine, name, joined, since, beat, beats, ended, batch, digest, confirmed)
			SELECT $1::bytea, $2::bytea, $3::bytea, $4::text, t.now, t.now, t.now, 1, false, 0, 0, 0
			FROM (SELECT clock_timestamp() AS now) AS t ON CONFLICT DO NOTHING`,
			s.Crawl[:], s.ID[:], s.Machine[:], s.Name)
		if err != nil {
			return err
		}
		_, _, err = lockSessions(ctx, tx, s)
		return err
	})
	return e.classify("join the crawl", err, false)
}

// Beat implements [cluster.Members].
func (e *Engine) Beat(ctx context.Context, s cluster.Session, known cluster.Known) (*cluster.Snapshot, error) {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		if err := countTime(ctx, tx, s.Crawl); err != nil {
			return err
		}
		if _, _, err := lockSessions(ctx, tx, s); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE mapwright_session SET beat = t.now, beats = beats + 1,
				since = CASE WHEN t.now - beat > $3::bigint * interval '1 microsecond' THEN t.now ELSE since END,
				`+tallyColumns+`
			FROM (SELECT clock_timestamp() AS now) AS t WHERE crawl = $1 AND id = $2`,
			append([]any{s.Crawl[:], s.ID[:], cluster.Lease.Microseconds()}, tallyValues(&s.Tally)...)...)
		return err
	})
	if err != nil {
		return nil, e.classify("beat", err, false)
	}
	return e.Look(ctx, s.Crawl, known)
}

// tallyColumns sets the columns of a tally to the values of tallyValues, which are the parameters from $4 on.
const tallyColumns = `takeovers = $4, fenced = $5, batch_us = $6, replaying = $7, rows_left = $8, pages = $9`

func tallyValues(t *cluster.Tally) []any {
	return []any{int64(t.Takeovers), int64(t.Fenced), t.Batch.Microseconds(), int64(t.Replaying), int64(t.RowsLeft),
		int64(t.Pages)}
}

const sessionColumns = `id, machine, name, joined, since, beat, beats, batch, ended, has_left,
	takeovers, fenced, batch_us, replaying, rows_left, pages`

func scanSession(row pgx.CollectableRow) (m cluster.Member, err error) {
	var session, machine []byte
	var batchUS int64
	t := &m.Tally
	err = row.Scan(&session, &machine, &m.Name, &m.Joined, &m.Since, &m.Beat, &m.Beats, &m.Batch, &m.Ended, &m.Left,
		&t.Takeovers, &t.Fenced, &batchUS, &t.Replaying, &t.RowsLeft, &t.Pages)
	copy(m.Session[:], session)
	copy(m.Machine[:], machine)
	t.Batch = time.Duration(batchUS) * time.Microsecond
	return m, err
}

// Sessions implements [cluster.Catalog].
func (e *Engine) Sessions(ctx context.Context, id cluster.CrawlID) ([]cluster.Member, error) {
	return ask(ctx, e, "list the sessions", func(tx pgx.Tx) ([]cluster.Member, error) {
		if err := findCrawl(ctx, tx, id, ""); err != nil {
			return nil, err
		}
		rows, _ := tx.Query(ctx,
			`SELECT `+sessionColumns+` FROM mapwright_session WHERE crawl = $1 ORDER BY joined, id`, id[:])
		return pgx.CollectRows(rows, scanSession) // its error can be that of Query
	})
}

// Leave implements [cluster.Members].
func (e *Engine) Leave(ctx context.Context, s cluster.Session) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		if err := countTime(ctx, tx, s.Crawl); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE mapwright_session SET has_left = has_left OR NOT ended, ended = $3, `+tallyColumns+`
			WHERE crawl = $1 AND id = $2`,
			append([]any{s.Crawl[:], s.ID[:], true}, tallyValues(&s.Tally)...)...)
		return err
	})
	return e.classify("leave the crawl", err, false)
}

// A lockedSession is the row of a session while a transaction has it locked.
type lockedSession struct {
	ended       bool
	beat, since time.Time
}

// lockSessions locks the rows of the session, which must not have ended, and of others
// in the order of their ids. It returns them and the time when all were locked.
func lockSessions(ctx context.Context, tx pgx.Tx, s cluster.Session,
	others ...cluster.SessionID) (map[cluster.SessionID]*lockedSession, time.Time, error) {
	ids := [][]byte{s.ID[:]}
	for _, o := range others {
		ids = append(ids, bytes.Clone(o[:]))
	}
	var now time.Time
	rows, _ := tx.Query(ctx,
		`SELECT id, ended, beat, since FROM mapwright_session WHERE crawl = $1 AND id = ANY($2) ORDER BY id FOR UPDATE`,
		s.Crawl[:], ids)
	locked := map[cluster.SessionID]*lockedSession{}
	var id []byte
	var l lockedSession
	// its error can be that of Query
	_, err := pgx.ForEachRow(rows, []any{&id, &l.ended, &l.beat, &l.since}, func() error {
		locked[cluster.SessionID(id)] = &lockedSession{l.ended, l.beat, l.since}
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	switch self := locked[s.ID]; {
	case self == nil:
		// The crawl was deleted, perhaps while this call waited for the row.
		if err := findCrawl(ctx, tx, s.Crawl, ""); err != nil {
			return nil, now, err
		}
		return nil, now, cluster.ErrRolledBack
	case self.ended:
		return nil, now, cluster.ErrFenced
	}
	err = tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return locked, now, err
}

// mayTake reports whether a session may take what another holds, and whether that
// ends the other.
func mayTake(self, owner *lockedSession, now time.Time) (take, ends bool) {
	if owner == nil || owner.ended {
		return true, false
	}
	expired := now.Sub(owner.beat) > cluster.Lease
	mayEnd := now.Sub(self.beat) <= cluster.Lease && now.Sub(self.since) >= cluster.Lease
	return owner != self && expired && mayEnd, true
}

func endSession(ctx context.Context, tx pgx.Tx, crawl cluster.CrawlID, id cluster.SessionID) error {
	_, err := tx.Exec(ctx, `UPDATE mapwright_session SET ended = true WHERE crawl = $1 AND id = $2`, crawl[:], id[:])
	return err
}

// Claim implements [cluster.Members].
func (e *Engine) Claim(ctx context.Context, s cluster.Session, parts []uint8) ([]cluster.Claimed, error) {
	numbers := make([]int16, len(parts))
	for i, p := range parts {
		numbers[i] = int16(p)
	}
	return ask(ctx, e, "claim partitions", func(tx pgx.Tx) ([]cluster.Claimed,
		error) {
		return claim(ctx, tx, s, numbers)
	})
}

func claim(ctx context.Context, tx pgx.Tx, s cluster.Session, numbers []int16) ([]cluster.Claimed, error) {
	if err := lockCrawl(ctx, tx, s.Crawl); err != nil {
		return nil, err
	}
	// Until the partitions are locked, a commit may close one; no call may claim one.
	before, err := readParts(ctx, tx, s.Crawl, numbers, "")
	if err != nil {
		return nil, err
	}
	var owners []cluster.SessionID
	for i := range before {
		owners = append(owners, before[i].Owner)
	}
	sessions, now, err := lockSessions(ctx, tx, s, owners...)
	if err != nil {
		return nil, err
	}
	found, err := readParts(ctx, tx, s.Crawl, numbers, "FOR UPDATE")
	if err != nil {
		return nil, err
	}
	var claimed []cluster.Claimed
	var taken []int16
	var beats []zeronull.Timestamptz
	for _, c := range found {
		if c.Owner != s.ID {
			owner := sessions[c.Owner]
			take, ends := mayTake(sessions[s.ID], owner, now)
			if !take {
				continue
			}
			if ends {
				owner.ended = true
				if err := endSession(ctx, tx, s.Crawl, c.Owner); err != nil {
					return nil, err
				}
			}
			if owner != nil && owner.beat.After(c.LastBeat) {
				c.LastBeat = owner.beat
			}
			c.Owner = s.ID
			c.Epoch++
			taken = append(taken, int16(c.Partition))
			beats = append(beats, zeronull.Timestamptz(c.LastBeat))
		}
		claimed = append(claimed, c)
	}
	_, err = tx.Exec(ctx, `
		UPDATE mapwright_part p SET owner = $2, epoch = epoch + 1, last_beat = u.last_beat
		FROM unnest($3::smallint[], $4::timestamptz[]) AS u(part, last_beat) WHERE p.crawl = $1 AND p.part = u.part`,
		s.Crawl[:], s.ID[:], taken, beats)
	return claimed, err
}

const partColumns = `part, owner, epoch, seq, hash, granted, last_beat, idle, busy, least, counted, counts`

func scanPart(row pgx.CollectableRow) (c cluster.Claimed, err error) {
	var owner []byte
	var hash int64
	status := &c.Status
	err = row.Scan(&c.Partition, &owner, &c.Epoch, &c.Head.Seq, &hash, &c.Granted, (*zeronull.Timestamptz)(&c.LastBeat),
		&status.Idle, &status.Busy, &status.Least, &status.Counted, &status.Counts)
	copy(c.Owner[:], owner)
	c.Head.Hash = uint64(hash)
	return c, err
}

// readParts reads partitions in order, with a clause for locking.
func readParts(ctx context.Context, tx pgx.Tx, id cluster.CrawlID, numbers []int16, lock string) ([]cluster.Claimed,
	error) {
	rows, _ := tx.Query(ctx,
		`SELECT `+partColumns+` FROM mapwright_part WHERE crawl = $1 AND part = ANY($2) ORDER BY part `+lock, id[:],
		slices.Clone(numbers))
	return pgx.CollectRows(rows, scanPart) // its error can be that of Query
}
