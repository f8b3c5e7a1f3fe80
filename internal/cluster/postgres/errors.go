package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Codes of errors, as the SQL standard and PostgreSQL number them.
const (
	undefinedTable       = "42P01"
	duplicateTable       = "42P07"
	duplicateObject      = "42710" // here: the row type of a table that another has just made
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	completionUnknown    = "40003"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006"
	idleInTransaction    = "25P03"
	lockNotAvailable     = "55P03"
	invalidSchema        = "3F000"
	noPrivilege          = "42501"
)

// code is the code of a server's error, empty for any other error.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// mostTries is how often a transaction is tried that the server rolls back because of another.
const mostTries = 20

// retry calls fn again while the server rolls it back because of another transaction, or finds that another has just
// made the same table.
func retry(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		switch code(err) {
		case serializationFailure, deadlockDetected, duplicateTable, duplicateObject:
		case uniqueViolation:
			if e, _ := errors.AsType[*pgconn.PgError](err); !strings.HasPrefix(e.ConstraintName, "pg_") {
				return err
			} // a row of the system's tables: two made a table at once
		default:
			return err
		}
		if try == mostTries {
			return err
		}
		pause := time.NewTimer(rand.N(time.Duration(try) * 5 * time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
	}
}

// errCommit marks an error of COMMIT itself.
type errCommit struct{ error }

func (e errCommit) Unwrap() error { return e.error }

// transact runs fn in a transaction, again if the server asks for that. Isolation is
// READ COMMITTED on PostgreSQL: each statement sees what was committed before it began.
// Callers lock rows in the order crawl, sessions by id, partitions by number.
func (e *Engine) transact(ctx context.Context, fn func(pgx.Tx) error) error {
	return retry(ctx, func() error {
		tx, err := e.pool.Begin(ctx)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			// It must not wait for a server that is away. Without an answer the
			// connection is closed, which rolls back too.
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = tx.Rollback(undo)
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return errCommit{err}
		}
		return nil
	})
}

// ask runs fn in a transaction. Without an error it returns the value of fn.
func ask[T any](ctx context.Context, e *Engine, doing string, fn func(pgx.Tx) (T, error)) (value T, err error) {
	err = e.transact(ctx, func(tx pgx.Tx) (err error) {
		value, err = fn(tx)
		return err
	})
	if err != nil {
		var none T
		return none, e.classify(doing, err, false)
	}
	return value, nil
}

// classify makes one of the cluster's errors of an error of pgx. Unknown says that an
// error of COMMIT leaves open whether it happened.
func (e *Engine) classify(doing string, err error, unknown bool) error {
	if err == nil {
		return nil
	}
	var kind error
	server, answered := errors.AsType[*pgconn.PgError](err)
	_, commit := errors.AsType[errCommit](err)
	switch {
	case isOurs(err):
		return fmt.Errorf("%s: %w", doing, err)
	case commit && unknown && (!answered || server.Code == completionUnknown || isAway(server.Code)):
		kind = cluster.ErrUnknown
	case !answered && !isUse(err) || answered && isAway(server.Code):
		kind = cluster.ErrAway
	default:
		return fmt.Errorf("%s: %s", doing, e.redact(err.Error()))
	}
	return fmt.Errorf("%s: %w: %s", doing, kind, e.redact(err.Error()))
}

// isOurs reports whether an error was made by this package and not by pgx.
func isOurs(err error) bool {
	for _, known := range []error{cluster.ErrFenced, cluster.ErrRolledBack, cluster.ErrNoCrawl, cluster.ErrExists,
		cluster.ErrNewer} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, wrong := errors.AsType[usageError](err)
	return wrong
}

// A usageError is a mistake of the caller.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUse reports whether an error comes from the use of pgx and not from the
// connection.
func isUse(err error) bool {
	_, scan := errors.AsType[pgx.ScanArgError](err)
	return scan || errors.Is(err, pgx.ErrNoRows) || errors.Is(err, pgx.ErrTooManyRows)
}

// isAway reports whether a server that answers cannot work now: it starts, stops, has
// no connection free, is a standby, refuses all clients, or has lost its disk or memory; or it has ended a
// transaction that waited for too long.
func isAway(code string) bool {
	switch code {
	case readOnlyTransaction, completionUnknown, idleInTransaction, lockNotAvailable:
		return true
	}
	switch code[:2] {
	case "08", "53", "57", "58":
		return true
	}
	return isRefused(code)
}

// isRefused reports whether a server does not let the user in. For a machine that works that is as if the server were
// away: its administrator has to repair it, as after a failover to a server with other passwords.
func isRefused(code string) bool { return strings.HasPrefix(code, "28") }

// redact removes the password from a text, and makes it one line. pgx has one line for each attempt to connect, and
// makes each attempt twice where encryption is not demanded.
func (e *Engine) redact(text string) string {
	first, attempts, several := strings.Cut(text, "\n\t")
	if several {
		list := strings.Split(attempts, "\n\t")
		text = first + " " + strings.Join(slices.Compact(list), "; ")
	}
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}
