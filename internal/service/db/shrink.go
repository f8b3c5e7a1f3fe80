package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mapwright/mapwright/internal/disk"
)

const (
	keptFree   = 4096 // pages of 4 KiB that deleted rows have left and new ones will use
	shrinkStep = 256  // pages that one transaction gives back, during which nothing else is written: 0.1 s under load
)

// Shrink gives space back to the disk that deleted rows have left in the file, a bounded part at a time. It says
// whether there is more. If letShrink could not change the database, new rows use that space, and the file stays as it
// is.
func (d *DB) Shrink(ctx context.Context) (more bool, err error) {
	free, err := readPragma(ctx, d.Read(), "freelist_count")
	if err != nil || free <= keptFree {
		return false, err
	}
	if can, err := canShrink(ctx, d.Read()); err != nil || !can {
		return false, err
	}
	err = d.transact(ctx, func(tx *sql.Tx) (err error) {
		rows, err := tx.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(shrinkStep, free-keptFree)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() { // it gives a page back for each row that is read
			continue
		}
		return rows.Err()
	})
	if err == nil { // the file becomes smaller when the log is copied to it
		_, err = d.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	}
	return err == nil && free > keptFree+shrinkStep, err
}

// letShrink makes a database that is new, or of an earlier version, one whose file can shrink. SQLite writes all of it
// to a temporary file and then to its log, so this is only done if there is room; the next start tries again.
func (d *DB) letShrink(ctx context.Context) error {
	if can, err := canShrink(ctx, d.writer); err != nil || can {
		return err
	}
	pages, err := readPragma(ctx, d.writer, "page_count")
	if err != nil {
		return err
	}
	size, err := readPragma(ctx, d.writer, "page_size")
	if err != nil {
		return err
	}
	free, err := disk.FreeBytes(d.o.Dir)
	if err == nil && free < 3*pages*size+8*reserveBytes {
		err = errors.New("it needs three times the size of the database, and 64 MiB")
	}
	if err == nil {
		_, err = d.writer.ExecContext(ctx, "PRAGMA auto_vacuum = incremental; VACUUM")
	}
	if err != nil {
		d.o.Log.Warn("the file of the database cannot be made one that shrinks; the next start tries again", "error",
			err)
	}
	return nil
}

// canShrink says whether the file of a database knows what it needs to become smaller.
func canShrink(ctx context.Context, q querier) (bool, error) {
	mode, err := readPragma(ctx, q, "auto_vacuum")
	return mode != 0, err
}

func readPragma(ctx context.Context, q querier, name string) (value int64, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	return value, err
}
