package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mapwright/mapwright/internal/cluster"
)

// schemaVersion is the version that this program writes. It is the number of steps in
// migrations.
const schemaVersion = 3

// migrations bring the schema from each version to the next. A step is never changed
// after a release; a new one is appended. There are no foreign keys: they would lock
// the crawl's row in every commit.
//
// The log and the hand-overs have tables for each crawl, which are dropped with it
// (createTables).
var migrations = [schemaVersion][]string{{
	`CREATE TABLE mapwright_crawl (
		id           bytea PRIMARY KEY,
		name         text NOT NULL UNIQUE,
		seed         bigint NOT NULL,
		identity     text NOT NULL,
		created      timestamptz NOT NULL,
		plan         bytea NOT NULL,
		plan_version bigint NOT NULL,
		state        text NOT NULL,
		reason       text NOT NULL,
		decided_by   bytea NOT NULL,
		run          bigint NOT NULL,
		level        bigint NOT NULL,
		max_urls     bigint NOT NULL,
		granted      bigint NOT NULL,
		used_us      bigint NOT NULL,
		active       timestamptz NOT NULL)`,
	`CREATE TABLE mapwright_session (
		crawl     bytea NOT NULL,
		id        bytea NOT NULL,
		machine   bytea NOT NULL,
		name      text NOT NULL,
		joined    timestamptz NOT NULL,
		since     timestamptz NOT NULL,
		beat      timestamptz NOT NULL,
		beats     bigint NOT NULL,
		ended     boolean NOT NULL,
		batch     bigint NOT NULL,
		digest    bigint NOT NULL,
		confirmed bigint NOT NULL,
		PRIMARY KEY (crawl, id)) WITH (fillfactor = 20)`,
	`CREATE TABLE mapwright_part (
		crawl     bytea NOT NULL,
		part      smallint NOT NULL,
		owner     bytea NOT NULL,
		epoch     bigint NOT NULL,
		seq       bigint NOT NULL,
		hash      bigint NOT NULL,
		granted   bigint NOT NULL,
		last_beat timestamptz,
		idle      boolean NOT NULL,
		busy      bigint NOT NULL,
		least     bigint NOT NULL,
		counted   bigint NOT NULL,
		counts    bytea NOT NULL,
		PRIMARY KEY (crawl, part)) WITH (fillfactor = 20)`,
	`CREATE TABLE mapwright_token (
		crawl  bytea NOT NULL,
		name   text NOT NULL,
		holder bytea NOT NULL,
		PRIMARY KEY (crawl, name))`,
	`CREATE TABLE mapwright_scope (
		crawl  bytea NOT NULL,
		number bigint NOT NULL,
		scope  text NOT NULL,
		PRIMARY KEY (crawl, number))`,
}, {
	`ALTER TABLE mapwright_session
		ADD COLUMN takeovers bigint NOT NULL DEFAULT 0,
		ADD COLUMN fenced    bigint NOT NULL DEFAULT 0,
		ADD COLUMN batch_us  bigint NOT NULL DEFAULT 0,
		ADD COLUMN replaying bigint NOT NULL DEFAULT 0,
		ADD COLUMN rows_left bigint NOT NULL DEFAULT 0`,
}, {
	`ALTER TABLE mapwright_session
		ADD COLUMN pages    bigint NOT NULL DEFAULT 0,
		ADD COLUMN has_left boolean NOT NULL DEFAULT false`,
	`ALTER TABLE mapwright_crawl
		ADD COLUMN begun         timestamptz NOT NULL DEFAULT '1970-01-01 00:00:00+00',
		ADD COLUMN begun_used_us bigint NOT NULL DEFAULT 0,
		ADD COLUMN begun_counted bigint NOT NULL DEFAULT 0`,
	`UPDATE mapwright_crawl SET begun = created`,
}}

// migrate brings the schema up to schemaVersion. If it is there already, that needs
// only the right to read it.
func (e *Engine) migrate(ctx context.Context) error {
	version, err := e.version(ctx)
	if err == nil && version == schemaVersion {
		return nil
	}
	if err != nil && code(err) != undefinedTable {
		return err
	}
	if version > schemaVersion {
		return newer(version)
	}
	err = retry(ctx, func() error {
		_, err := e.pool.Exec(ctx,
			`CREATE TABLE IF NOT EXISTS mapwright_schema (one boolean PRIMARY KEY, version bigint NOT NULL)`)
		return err
	})
	if c := code(err); c == invalidSchema || c == noPrivilege {
		return usage("there are no tables yet, and the role may not make them (%s): CREATE SCHEMA mapwright "+
			"AUTHORIZATION mapwright, for a role mapwright, "+
			"gives it a place, which search_path=mapwright in the address names", e.redact(err.Error()))
	}
	if err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	return e.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO mapwright_schema VALUES (true, 0) ON CONFLICT DO NOTHING`); err != nil {
			return err
		}
		var version int64
		if err := tx.QueryRow(ctx, `SELECT version FROM mapwright_schema FOR UPDATE`).Scan(&version); err != nil {
			return err
		}
		if version > schemaVersion {
			return newer(version) // another process was here in the meantime
		}
		for v := version; v < schemaVersion; v++ {
			for _, sql := range migrations[v] {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return fmt.Errorf("bring schema to version %d: %w", v+1, err)
				}
			}
		}
		_, err := tx.Exec(ctx, `UPDATE mapwright_schema SET version = $1`, int64(schemaVersion))
		return err
	})
}

func newer(version int64) error {
	return fmt.Errorf("%w: it has version %d, this program knows up to %d", cluster.ErrNewer, version, schemaVersion)
}

func (e *Engine) version(ctx context.Context) (version int64, err error) {
	err = e.pool.QueryRow(ctx, `SELECT version FROM mapwright_schema`).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil // another process is creating it
	}
	return version, err
}

// createTables makes the tables of one crawl.
func createTables(ctx context.Context, tx pgx.Tx, id cluster.CrawlID) error {
	for _, sql := range []string{
		`CREATE TABLE ` + logTable(id) + ` (
			part    smallint NOT NULL,
			seq     bigint NOT NULL,
			hash    bigint NOT NULL,
			epoch   bigint NOT NULL,
			session bytea NOT NULL,
			body    bytea NOT NULL,
			PRIMARY KEY (part, seq))`,
		`CREATE TABLE ` + inboxTable(id) + ` (
			part    smallint NOT NULL,
			session bytea NOT NULL,
			batch   bigint NOT NULL,
			body    bytea NOT NULL,
			PRIMARY KEY (part, session, batch))`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// tuneTables sets how the bodies are stored, which are compressed already, and counts the rows of mapwright_part:
// without that PostgreSQL takes them to be few, and compares every partition of a batch with every row. A database that
// speaks PostgreSQL's protocol and does not know these statements works without them.
func (e *Engine) tuneTables(ctx context.Context, id cluster.CrawlID) error {
	var statements []string
	for _, table := range []string{logTable(id), inboxTable(id)} {
		statements = append(statements, `ALTER TABLE `+table+` ALTER COLUMN body SET STORAGE EXTERNAL`,
			`ALTER TABLE `+table+` SET (toast_tuple_target = 8160)`)
	}
	for _, sql := range append(statements, `ANALYZE mapwright_part`) {
		_, err := e.pool.Exec(ctx, sql)
		if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
			return err
		}
	}
	return nil
}

func logTable(id cluster.CrawlID) string   { return "mapwright_log_" + id.String() }
func inboxTable(id cluster.CrawlID) string { return "mapwright_inbox_" + id.String() }
