package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// migrations are the steps from one form of the database to the next, in the order of their names. A step that was released is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewer means that the database was written by a newer version of the program.
var ErrNewer = errors.New("the database was written by a newer version of Mapwright: use that version, or restore the copy that it made before it changed the database")

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

// migrate brings the database to the last version. Before each step the database is copied to a file beside it, which is never overwritten: if
// the step was interrupted, the copy of the first attempt is the one to keep.
func (d *DB) migrate(ctx context.Context, path string) error {
	texts, err := steps()
	if err != nil {
		return err
	}
	if _, err := d.writer.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"); err != nil {
		return err
	}
	for {
		version, err := readVersion(ctx, d.writer)
		switch {
		case err != nil:
			return err
		case version > len(texts):
			return fmt.Errorf("%w (it has version %d, this program knows %d)", ErrNewer, version, len(texts))
		case version == len(texts):
			return nil
		}
		if version > 0 {
			if err := d.copyTo(ctx, fmt.Sprintf("%s.before-%d", path, version+1)); err != nil {
				return fmt.Errorf("copy the database before it is changed: %w", err)
			}
		}
		if err := d.step(ctx, version, texts[version]); err != nil {
			return fmt.Errorf("change the database to version %d: %w", version+1, err)
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

// copyTo writes a copy of the database, unless there is one.
func (d *DB) copyTo(ctx context.Context, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := path + ".tmp"
	if err := os.Remove(whole); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.writer.ExecContext(ctx, "VACUUM INTO ?", whole); err != nil {
		return err
	}
	return os.Rename(whole, path)
}

// step takes one step, unless another process has done so meanwhile.
func (d *DB) step(ctx context.Context, from int, text string) error {
	return d.transact(ctx, func(tx *sql.Tx) error {
		if now, err := readVersion(ctx, tx); err != nil || now != from {
			return err
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
