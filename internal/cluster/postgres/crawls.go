package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
)

// none stands for no session.
var none = make([]byte, len(cluster.SessionID{}))

// Create implements [cluster.Catalog].
func (e *Engine) Create(ctx context.Context, c cluster.Crawl, tokens ...string) error {
	made := false
	err := e.transact(ctx, func(tx pgx.Tx) error {
		made = false
		tag, err := tx.Exec(ctx, `
			INSERT INTO mapwright_crawl
			VALUES ($1, $2, $3, $4, clock_timestamp(), $5, 1, $6, '', $7, 1, 0, $8, 0, 0, '1970-01-01 00:00:00+00',
				clock_timestamp(), 0, 0)
			ON CONFLICT DO NOTHING`,
			c.ID[:], c.Name, int64(c.Seed), c.Identity, notNull(c.Plan), string(cluster.Running), none,
			int64(c.MaxURLs))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			var same bool
			err := tx.QueryRow(ctx, `SELECT count(*) = 1 FROM mapwright_crawl WHERE id = $1 AND name = $2`, c.ID[:],
				c.Name).Scan(&same)
			if err == nil && !same {
				err = cluster.ErrExists
			}
			return err
		}
		made = true
		parts := make([]int16, cluster.Partitions)
		for p := range parts {
			parts[p] = int16(p)
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO mapwright_part
			SELECT $1::bytea, part, $2::bytea, 0, 0, 0, 0, NULL, true, 0, $3::bigint, 0, ''::bytea
			FROM unnest($4::smallint[]) AS u(part)`,
			c.ID[:], none, int64(cluster.NoDepth), parts); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx,
			`INSERT INTO mapwright_token SELECT $1::bytea, name, $2::bytea FROM unnest($3::text[]) AS u(name)`, c.ID[:],
			none, tokens); err != nil {
			return err
		}
		return createTables(ctx, tx, c.ID)
	})
	if err == nil && made {
		err = e.tuneTables(ctx, c.ID)
	}
	return e.classify("create crawl", err, false)
}

// notNull makes an empty value of nil, which would be stored as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// sinceActive is the time in microseconds since the last call of countTime, 0 if no machine was there meanwhile.
var sinceActive = fmt.Sprintf(`CASE WHEN state = '%s'
		AND clock_timestamp() BETWEEN active AND active + interval '%d microseconds'
		AND EXISTS (SELECT 1 FROM mapwright_session s WHERE s.crawl = mapwright_crawl.id AND NOT s.ended)
	THEN (extract(epoch FROM clock_timestamp() - active) * 1000000)::bigint ELSE 0 END`,
	cluster.Running, cluster.Lease.Microseconds())

var crawlColumns = `id, name, seed, identity, created, plan_version, state, reason, run, level, max_urls,
	granted, begun, begun_used_us, begun_counted, used_us + ` + sinceActive

func scanCrawl(row pgx.Row, more ...any) (c cluster.Crawl, err error) {
	var id []byte
	var seed, usedBefore, used int64
	err = row.Scan(append([]any{&id, &c.Name, &seed, &c.Identity, &c.Created, &c.PlanVersion, &c.State, &c.Reason,
		&c.Run, &c.Level, &c.MaxURLs, &c.Granted,
		&c.Begun.At, &usedBefore, &c.Begun.Counted, &used}, more...)...)
	copy(c.ID[:], id)
	c.Seed, c.Used, c.Begun.Used = uint64(seed), time.Duration(used)*time.Microsecond,
		time.Duration(usedBefore)*time.Microsecond
	return c, err
}

// List implements [cluster.Catalog].
func (e *Engine) List(ctx context.Context) ([]cluster.Crawl, error) {
	return ask(ctx, e, "list crawls", func(tx pgx.Tx) ([]cluster.Crawl, error) {
		rows, _ := tx.Query(ctx, `SELECT `+crawlColumns+` FROM mapwright_crawl ORDER BY created, name`)
		// its error can be that of Query
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (cluster.Crawl, error) { return scanCrawl(row) })
	})
}

// Delete implements [cluster.Catalog].
func (e *Engine) Delete(ctx context.Context, id cluster.CrawlID) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		if err := lockCrawl(ctx, tx, id); errors.Is(err, cluster.ErrNoCrawl) {
			return nil
		} else if err != nil {
			return err
		}
		for _, sql := range []string{
			`DELETE FROM mapwright_session WHERE crawl = $1`, `DELETE FROM mapwright_part WHERE crawl = $1`,
			`DELETE FROM mapwright_token WHERE crawl = $1`,
			`DELETE FROM mapwright_scope WHERE crawl = $1`, `DELETE FROM mapwright_crawl WHERE id = $1`,
		} {
			if _, err := tx.Exec(ctx, sql, id[:]); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `DROP TABLE IF EXISTS `+logTable(id)+`, `+inboxTable(id))
		return err
	})
	return e.classify("delete crawl", err, false)
}

// lockCrawl locks the row of a crawl, which orders all changes but commits.
func lockCrawl(ctx context.Context, tx pgx.Tx, id cluster.CrawlID) error {
	return findCrawl(ctx, tx, id, "FOR UPDATE")
}

// findCrawl returns ErrNoCrawl for a crawl that does not exist. Lock is a clause for locking.
func findCrawl(ctx context.Context, tx pgx.Tx, id cluster.CrawlID, lock string) error {
	var one int
	err := tx.QueryRow(ctx, `SELECT 1 FROM mapwright_crawl WHERE id = $1 `+lock, id[:]).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return cluster.ErrNoCrawl
	}
	return err
}

// Look implements [cluster.Catalog].
func (e *Engine) Look(ctx context.Context, id cluster.CrawlID, known cluster.Known) (*cluster.Snapshot, error) {
	var snap *cluster.Snapshot
	err := retry(ctx, func() error {
		tx, err := e.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if snap, err = readSnapshot(ctx, tx, id, known); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	if err != nil {
		return nil, e.classify("read the crawl's state", err, false)
	}
	return snap, nil
}

// readSnapshot sends all its queries at once.
func readSnapshot(ctx context.Context, tx pgx.Tx, id cluster.CrawlID, known cluster.Known) (*cluster.Snapshot, error) {
	snap := &cluster.Snapshot{}
	var b pgx.Batch
	b.Queue(`
		SELECT `+crawlColumns+`, CASE WHEN plan_version = $2 THEN NULL ELSE plan END, clock_timestamp(),
			(SELECT count(*) FROM mapwright_scope WHERE crawl = $1)
		FROM mapwright_crawl WHERE id = $1`, id[:], int64(known.Plan)).QueryRow(func(row pgx.Row) (err error) {
		var plan []byte
		snap.Crawl, err = scanCrawl(row, &plan, &snap.Now, &snap.Scopes)
		snap.Crawl.Plan = plan
		if errors.Is(err, pgx.ErrNoRows) {
			err = cluster.ErrNoCrawl
		}
		return err
	})
	b.Queue(`SELECT `+sessionColumns+` FROM mapwright_session WHERE crawl = $1 AND NOT ended ORDER BY id`,
		id[:]).Query(func(rows pgx.Rows) (err error) {
		snap.Members, err = pgx.CollectRows(rows, scanSession)
		return err
	})
	b.Queue(`SELECT `+partColumns+` FROM mapwright_part WHERE crawl = $1`, id[:]).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, scanPart)
		for i := range list {
			snap.Parts[list[i].Partition] = list[i].Part
		}
		return err
	})
	b.Queue(`SELECT name, holder FROM mapwright_token WHERE crawl = $1 ORDER BY name`,
		id[:]).Query(func(rows pgx.Rows) error {
		var name string
		var holder []byte
		_, err := pgx.ForEachRow(rows, []any{&name, &holder}, func() error {
			snap.Tokens = append(snap.Tokens, cluster.Token{Name: name, Holder: cluster.SessionID(holder)})
			return nil
		})
		return err
	})
	b.Queue(`SELECT scope FROM mapwright_scope WHERE crawl = $1 AND number >= $2 ORDER BY number`, id[:],
		int64(known.Scope)).Query(func(rows pgx.Rows) (err error) {
		snap.Scope, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	b.Queue(`SELECT count(*) FROM (SELECT 1 FROM `+inboxTable(id)+` LIMIT $1) AS waiting`,
		cluster.MostWaiting).QueryRow(func(row pgx.Row) error { return row.Scan(&snap.Waiting) })
	err := tx.SendBatch(ctx, &b).Close()
	if code(err) == undefinedTable {
		err = cluster.ErrNoCrawl
	}
	return snap, err
}
