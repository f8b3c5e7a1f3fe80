package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Name is the file of the database in the data directory.
const Name = "service.db"

// Options are what a database needs.
type Options struct {
	Dir     string              // the data directory, which exists
	Observe func(time.Duration) // called with the time that each writing transaction took; may be nil
	Log     *slog.Logger        // nil means none
}

// DB is an open database.
type DB struct {
	o       Options
	writer  *sql.DB // one connection, whose transactions lock the database when they begin
	reader  *sql.DB
	reserve reserve
}

// Readers is how many queries run at the same time.
const Readers = 8

const (
	cacheKB = 8000 // of a connection: some thousand crawls

	busyTimeout = 10 * time.Second // how long a connection waits for others
)

// Open opens the database of a data directory, makes it if there is none, and brings it to the form of this program. If
// the disk is full, the reserve is released: SQLite makes files beside the database when it is opened.
func Open(ctx context.Context, o Options) (*DB, error) {
	d, err := openAll(ctx, o)
	if IsFull(err) && ReleaseReserve(o.Dir) {
		return openAll(ctx, o)
	}
	return d, err
}

func openAll(ctx context.Context, o Options) (*DB, error) {
	path := filepath.Join(o.Dir, Name)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	d := &DB{o: o, reserve: reserve{path: filepath.Join(o.Dir, reserveName)}}
	err := makePrivate(path)
	if err == nil {
		d.writer, err = open(path, "&_txlock=immediate", 1)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err = connect(ctx, d.writer); err == nil {
		err = d.migrate(ctx, path)
	}
	if err == nil {
		err = d.letShrink(ctx)
	}
	if err == nil {
		err = d.reserve.fill()
	}
	if err == nil {
		d.reader, err = open(path, "&_pragma=query_only(1)", Readers)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), d.writer.Close())
	}
	return d, nil
}

// makePrivate makes the file of the database, if there is none, and lets only its owner read it and the files beside
// it, whatever the directory and the umask allow: they hold secrets of webhooks and headers of crawls. SQLite gives the
// files that it makes later the mode of the database.
func makePrivate(path string) error {
	if err := makeEmpty(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), Name) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		info, err := os.Stat(name)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, info.Mode().Perm()&0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process has closed the database
			return err
		}
	}
	return nil
}

// makeEmpty makes a file that only its owner can read. It does not open a file that exists: closing it would end all
// locks that the process has on it.
func makeEmpty(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func open(path, more string, connections int) (*sql.DB, error) {
	name := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() +
		"?_pragma=busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) +
		")&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)&_pragma=cache_size(" +
		strconv.Itoa(-cacheKB) + ")" + more
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// connect opens the first connection of a pool. If several connections set the journal mode of a new database at the
// same time, SQLite refuses all but one of them at once, whatever their busy timeout is.
func connect(ctx context.Context, pool *sql.DB) error {
	for began := time.Now(); ; {
		err := pool.PingContext(ctx)
		if !isBusy(err) || time.Since(began) > busyTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isBusy says whether another connection has locked the database.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// Close closes the database. It may be called again.
func (d *DB) Close() error { return errors.Join(d.reader.Close(), d.writer.Close()) }

// Read is where queries are made. They cannot write.
func (d *DB) Read() Reader { return Reader{d.reader} }

// A Reader makes queries. A query runs to its end even if its context ends, so it must be short: what reads many large
// rows, or compares them with a text of a user, makes several queries and ends between them. For a context that can end
// the driver and database/sql each start a goroutine and wait for it, which takes long beside busy crawls.
type Reader struct{ pool *sql.DB }

// QueryContext is like that of [sql.DB].
func (r Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.pool.QueryContext(context.WithoutCancel(ctx), query, args...)
}

// QueryRowContext is like that of [sql.DB].
func (r Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.pool.QueryRowContext(context.WithoutCancel(ctx), query, args...)
}

// Write runs a transaction: it is durable when Write returns nil, and has done nothing if it returns an error. No other
// transaction writes meanwhile, so what fn reads stays true until its end. If the disk is full, the reserve is released
// and fn runs once more.
func (d *DB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	began := time.Now()
	err := d.transact(ctx, fn)
	if IsFull(err) && d.reserve.release() {
		err = d.transact(ctx, fn)
	}
	if d.o.Observe != nil {
		d.o.Observe(time.Since(began))
	}
	return err
}

func (d *DB) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := d.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// ignoreDone returns the error of a rollback. A transaction whose context ended is rolled back already, which is no
// error.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// Refill makes the reserve again when the disk has space.
func (d *DB) Refill() error { return d.reserve.fill() }

// IsFull says whether a transaction, or the opening of the database, failed because the disk is full.
func IsFull(err error) bool {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE) {
		return true
	}
	return errors.Is(err, syscall.ENOSPC)
}

// IsTaken says whether a statement failed because a value that must be unique exists already.
func IsTaken(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE ||
		e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
