package db

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const largeRows, largeRow = 24, 1 << 20

// addLarge adds rows, and removeLarge removes them.
func addLarge(t *testing.T, d *DB) {
	t.Helper()
	for i := range largeRows {
		if err := insert(t, d, fmt.Sprint("large ", i, strings.Repeat("x", largeRow)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func removeLarge(t *testing.T, d *DB) {
	t.Helper()
	if err := d.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM plan WHERE name LIKE 'large %'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// shrink calls Shrink until nothing is left to do, and returns the size of the file after the end of the database.
func shrink(t *testing.T, d *DB) int64 {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = d.Shrink(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(d.o.Dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The space of deleted rows comes back to the disk, but for what new rows soon need. Other rows stay, between and behind
// those that are deleted.
func TestShrink(t *testing.T) {
	t.Parallel()
	d := openTest(t, t.TempDir())
	if more, err := d.Shrink(t.Context()); more || err != nil {
		t.Errorf("an empty database has more to give back: %v, %v", more, err)
	}
	addLarge(t, d)
	if err := insert(t, d, "kept", nil); err != nil {
		t.Fatal(err)
	}
	removeLarge(t, d)
	if n := count(t, d); n != 1 {
		t.Errorf("%d rows", n)
	}
	if size := shrink(t, d); size > (keptFree+shrinkStep)*4096 {
		t.Errorf("the file has %d bytes after %d were deleted", size, 2*largeRows*largeRow)
	}
	if n := count(t, openTest(t, d.o.Dir)); n != 1 {
		t.Errorf("%d rows in the smaller file", n)
	}
}

// The file of a database of an earlier version shrinks too.
func TestShrinkOfAnOlderDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	older, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	older.SetMaxOpenConns(1)
	d := &DB{o: Options{Dir: dir}, writer: older}
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.ExecContext(t.Context(),
		"CREATE TABLE schema_version (version INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if err := d.step(t.Context(), i, text, ""); err != nil {
			t.Fatal(err)
		}
	}
	can, err := canShrink(t.Context(), older)
	if err = errors.Join(err, older.Close()); can || err != nil {
		t.Fatalf("it can shrink already: %v, %v", can, err)
	}
	d = openTest(t, dir)
	addLarge(t, d)
	removeLarge(t, d)
	if size := shrink(t, d); size > (keptFree+shrinkStep)*4096 {
		t.Errorf("the file has %d bytes after %d were deleted", size, 2*largeRows*largeRow)
	}
}
