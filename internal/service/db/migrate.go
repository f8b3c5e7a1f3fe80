package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// migrations are the steps from one form of the database to the next, in the order of their names. A step that was
// released is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// errNewer means that the database was written by a newer version of the program.
var errNewer = errors.New("the database was written by a newer version of Mapwright: use that version, or restore " +
	"the copy that it made before it changed the database")

// steps are the texts of the migrations; the first leads to version 1.
func steps() ([]string, error) {
	entries, err := fs.ReadDir(migrations, "migrations") // in the order of their names
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		text, err := migrations.ReadFile("migrations/" + e.Name())
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// migrate brings the database to the last version. Before each step, a database that is not new is copied to a file
// beside it. It takes the place of an earlier copy: a step that was interrupted has changed nothing, and a copy that
// was restored has changed since. Several processes may do this at the same time.
func (d *DB) migrate(ctx context.Context, path string) error {
	texts, err := steps()
	if err != nil {
		return err
	}
	if _, err := d.writer.ExecContext(ctx,
		"CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"); err != nil {
		return err
	}
	for isNew := false; ; {
		version, err := readVersion(ctx, d.writer)
		switch {
		case err != nil:
			return err
		case version > len(texts):
			return fmt.Errorf("%w (it has version %d, this program knows %d)", errNewer, version, len(texts))
		case version == len(texts):
			return nil
		}
		isNew = isNew || version == 0
		before := ""
		if !isNew {
			before = fmt.Sprintf("%s.before-%d", path, version+1)
		}
		if err := d.step(ctx, version, texts[version], before); err != nil {
			return fmt.Errorf("change the database to version %d: %w", version+1, err)
		}
		if !isNew {
			d.o.Log.Info("the database was changed to a new version", "version", version+1, "copy_of_the_one_before",
				before)
		}
	}
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readVersion(ctx context.Context, q querier) (version int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM schema_version").Scan(&version)
	return version, err
}

// copyTo writes a copy of the database. No other process may do so meanwhile.
func (d *DB) copyTo(ctx context.Context, path string) error {
	whole := path + ".tmp"
	if err := os.Remove(whole); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeEmpty(whole); err != nil { // SQLite fills an empty file
		return err
	}
	// The connection that writes has a transaction, in which this is not allowed.
	other, err := open(filepath.Join(d.o.Dir, Name), "", 1)
	if err != nil {
		return err
	}
	_, err = other.ExecContext(ctx, "VACUUM INTO ?", whole)
	if err := errors.Join(err, other.Close()); err != nil {
		return err
	}
	return os.Rename(whole, path)
}

// step takes one step, unless another process has done so meanwhile. If before is not empty, the database is copied to
// this path first: the transaction keeps other processes from making a copy at the same time.
func (d *DB) step(ctx context.Context, from int, text, before string) error {
	return d.transact(ctx, func(tx *sql.Tx) error {
		if now, err := readVersion(ctx, tx); err != nil || now != from {
			return err
		}
		if before != "" {
			if err := d.copyTo(ctx, before); err != nil {
				return fmt.Errorf("copy the database before it is changed: %w", err)
			}
		}
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO schema_version (version) VALUES (?)", from+1)
		return err
	})
}
