package db

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

func openTest(t *testing.T, dir string) *DB {
	t.Helper()
	d, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func count(t *testing.T, d *DB) (n int) {
	t.Helper()
	if err := d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM plan").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func insert(t *testing.T, d *DB, name string, fail error) error {
	t.Helper()
	return d.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO plan (name, terms_json) VALUES (?, '{}')",
			name); err != nil {
			return err
		}
		return fail
	})
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, other := openTest(t, dir), openTest(t, dir) // as two processes
	broken := errors.New("broken")
	if err := insert(t, d, "a", broken); !errors.Is(err, broken) || count(t, d) != 0 {
		t.Errorf("%v, %d rows", err, count(t, d))
	}
	if err := errors.Join(insert(t, d, "a", nil), insert(t, other, "b", nil)); err != nil || count(t, d) != 2 ||
		count(t, other) != 2 {
		t.Errorf("%v, %d and %d rows", err, count(t, d), count(t, other))
	}
	if err := insert(t, d, "a", nil); !IsTaken(err) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := d.reader.ExecContext(t.Context(), "DELETE FROM plan"); err == nil {
		t.Error("the connections for reading can write")
	}
}

// Before a step the database is copied, and one that is newer than the program is refused.
func TestMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	d := openTest(t, dir)
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	if err := insert(t, d, "kept", nil); err != nil {
		t.Fatal(err)
	}
	next := "CREATE TABLE added (id TEXT PRIMARY KEY);\nINSERT INTO added (id) VALUES ('x; y');\n"
	version := len(texts)
	if err := d.copyTo(t.Context(), path+".before"); err != nil {
		t.Fatal(err)
	}
	if err := d.step(t.Context(), version, next, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.step(t.Context(), version, next, ""); err != nil { // as another process that was slower
		t.Errorf("a step that was taken: %v", err)
	}
	if err := d.step(t.Context(), version+1, "CREATE TABLE more (id TEXT);\nCREATE TABLE added (id TEXT);\n",
		""); err == nil {
		t.Error("a step that fails is taken")
	}
	var n int
	if err := d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM more").Scan(&n); err == nil {
		t.Error("half of a step that failed was done")
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, errNewer) {
		t.Errorf("a newer database: %v", err)
	}
	older := t.TempDir()
	if err := os.Rename(path+".before", filepath.Join(older, Name)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, openTest(t, older)); n != 1 {
		t.Errorf("the copy has %d plans", n)
	}
}

// A database of version 2 keeps what its crawls and schedules were submitted with: the rows of crawls have the first
// start URLs only, and both know their size. A crawl that an admin put under a larger plan stays there.
func TestInputOfCrawlsIsMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{o: Options{Dir: dir}}
	if d.writer, err = open(filepath.Join(dir, Name), "&_txlock=immediate", 1); err != nil {
		t.Fatal(err)
	}
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := d.writer.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE schema_version (version INTEGER NOT NULL)")
	for i := range 2 {
		if err := d.step(t.Context(), i, texts[i], ""); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO plan (name, terms_json) VALUES ('p', '{}')")
	exec("INSERT INTO account (id, name, plan, own_hosts_json, disabled, created_at) VALUES ('a', 'a', 'p', '[]', 0, 1)")
	many := []string{}
	for i := range 30 {
		many = append(many, fmt.Sprintf(`"https://ü%d.test/?a=\"b\""`, i))
	}
	all := "[" + strings.Join(many, ",") + "]"
	for id, starts := range map[string]string{"few": `["a.test","b.test"]`, "many": all} {
		exec("INSERT INTO crawl (id, account, state, desired, plan, priority, profile, name, labels_json, "+
			"starts_json, start_count, settings_json, shown_json, stored_json, created_at, queued_at) "+
			`VALUES (?, 'a', 'queued', 'run', 'p', 5, 'polite', '', '[]', ?, ?, '{"x":1}', '{"y":2}', '{"z":[]}', 1, 1)`, id, starts, strings.Count(starts, ".test"))
	}
	exec(`INSERT INTO plan (name, terms_json) VALUES ('large', '{"safe":false}'), ('quick', '{"safe":true}')`)
	for _, plan := range []string{"large", "quick"} {
		exec("INSERT INTO crawl (id, account, state, desired, plan, priority, profile, name, labels_json, "+
			"starts_json, start_count, settings_json, shown_json, stored_json, created_at, queued_at) "+
			"VALUES (?, 'a', 'queued', 'run', ?, 5, 'polite', '', '[]', '[]', 0, '{}', '{}', '{}', 1, 1)", plan, plan)
	}
	exec("INSERT INTO schedule (id, account, name, cron, every, zone, enabled, submission_json, crawl, recrawl_json, " +
		"created_by, scopes_json, created_at) " +
		"VALUES ('s', 'a', '', '', '', '', 1, '{}', '', '', '', '[]', 1)")
	if err := d.writer.Close(); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, dir)
	for id, want := range map[string]struct {
		all   string
		first int
	}{"few": {`["a.test","b.test"]`, 2}, "many": {all, 10}} {
		var first, starts, settings, shown, stored string
		var size int
		err := d.Read().QueryRowContext(t.Context(),
			"SELECT first_starts_json, input_bytes, starts_json, settings_json, shown_json, stored_json "+
				"FROM crawl JOIN crawl_input ON crawl_input.crawl = crawl.id WHERE id = ?", id).Scan(&first, &size,
			&starts,
			&settings, &shown, &stored)
		if err != nil {
			t.Fatal(err)
		}
		var list, whole []string
		if err := errors.Join(json.Unmarshal([]byte(first), &list),
			json.Unmarshal([]byte(want.all), &whole)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(list, whole[:want.first]) || starts != want.all || settings != `{"x":1}` ||
			shown != `{"y":2}` || stored != `{"z":[]}` || size < 24 {
			t.Errorf("%s: first %s of %s, settings %s %s %s, %d bytes", id, first, starts, settings, shown, stored,
				size)
		}
	}
	var size int
	if err := d.Read().QueryRowContext(t.Context(), "SELECT input_bytes FROM schedule").Scan(&size); err != nil ||
		size != 2 {
		t.Errorf("the schedule has %d bytes, %v", size, err)
	}
	var byAdmin string
	if err := d.Read().QueryRowContext(t.Context(),
		"SELECT group_concat(id) FROM crawl WHERE plan_by_admin").Scan(&byAdmin); err != nil || byAdmin != "large" {
		t.Errorf("an admin chose the plans of %s, %v", byAdmin, err)
	}
}

// A copy that was restored, and used with the earlier version for some time, is copied again before it is changed.
func TestRestoredCopyIsCopiedAgain(t *testing.T) {
	t.Parallel()
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	use := func(from int, plan string) { // a database, with the version before the last
		t.Helper()
		d := &DB{o: Options{Dir: dir}}
		if d.writer, err = open(path, "&_txlock=immediate", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := d.writer.ExecContext(t.Context(),
			"CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		for version := from; version < len(texts)-1; version++ {
			if err := d.step(t.Context(), version, texts[version], ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(insert(t, d, plan, nil), d.writer.Close()); err != nil {
			t.Fatal(err)
		}
	}
	before := fmt.Sprintf("%s.before-%d", path, len(texts))
	for i := range 3 {
		if i == 0 {
			use(0, "plan 0")
		} else {
			if err := os.Rename(before, path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(before, []byte("an older copy"), 0o600); err != nil {
				t.Fatal(err)
			}
			use(len(texts), fmt.Sprint("plan ", i))
		}
		d, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, d); n != i+1 {
			t.Errorf("the database has %d plans, want %d", n, i+1)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	if err := os.Rename(before, path); err != nil {
		t.Fatal(err)
	}
	if n := count(t, openTest(t, dir)); n != 3 {
		t.Errorf("the last copy has %d plans, want 3", n)
	}
}

// Several processes open a database at the same time that is new, or of an older version. Each finds it as it should
// be, and an older one was copied.
func TestOpenedAtTheSameTime(t *testing.T) {
	t.Parallel()
	texts, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	for _, isNew := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, Name)
		if !isNew {
			d := &DB{o: Options{Dir: dir}}
			if d.writer, err = open(path, "&_txlock=immediate", 1); err != nil {
				t.Fatal(err)
			}
			if _, err := d.writer.ExecContext(t.Context(),
				"CREATE TABLE schema_version (version INTEGER NOT NULL)"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.step(t.Context(), 0, texts[0], ""), d.writer.Close()); err != nil {
				t.Fatal(err)
			}
		}
		var group errgroup.Group
		for range 6 {
			group.Go(func() error {
				d, err := Open(t.Context(), Options{Dir: dir})
				if err != nil {
					return err
				}
				version, err := readVersion(t.Context(), d.Read())
				if version != len(texts) {
					err = errors.Join(err, fmt.Errorf("version %d, want %d", version, len(texts)))
				}
				return errors.Join(err, d.Close())
			})
		}
		if err := group.Wait(); err != nil {
			t.Errorf("new %v: %v", isNew, err)
		}
		copies, err := filepath.Glob(path + ".before-*")
		if want := len(texts) - 1; err != nil || isNew && len(copies) > want || !isNew && len(copies) != want {
			t.Errorf("new %v: copies %v, %v", isNew, copies, err)
		}
	}
}

// The reserve is there after Open, is released once, and comes back.
func TestReserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := openTest(t, dir)
	path := filepath.Join(dir, reserveName)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if size() != reserveBytes || !d.reserve.release() || d.reserve.release() || size() != 0 {
		t.Error("the reserve is not released once")
	}
	if err := d.Refill(); err != nil || size() != reserveBytes {
		t.Errorf("%v, %d bytes", err, size())
	}
}

// Several processes make the reserve at the same time, also where one was killed while it did so.
func TestReserveOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	for _, left := range []int{-1, 0, 1, reserveBytes / 2} { // bytes that one left behind
		path := filepath.Join(t.TempDir(), reserveName)
		if left >= 0 {
			if err := os.WriteFile(path, make([]byte, left), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var group errgroup.Group
		begin := make(chan struct{})
		for range 12 {
			r := &reserve{path: path}
			group.Go(func() error {
				<-begin
				return r.fill()
			})
		}
		close(begin)
		if err := group.Wait(); err != nil {
			t.Errorf("%d bytes were left: %v", left, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != reserveBytes {
			t.Errorf("%d bytes were left: %v, %v", left, info, err)
		}
	}
}

// A transaction that finds the disk full runs once more when the reserve is released, and is written once; without a
// reserve it fails.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := openTest(t, t.TempDir())
	runs := 0
	write := func(name string, full int) error {
		runs = 0
		return d.Write(t.Context(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO plan (name, terms_json) VALUES (?, '{}')",
				name); err != nil {
				return err
			}
			if runs++; runs <= full {
				return fmt.Errorf("write: %w", syscall.ENOSPC)
			}
			return nil
		})
	}
	if err := write("a", 1); err != nil || runs != 2 || count(t, d) != 1 {
		t.Errorf("with a reserve: %v after %d runs, %d rows", err, runs, count(t, d))
	}
	if err := write("b", 1); !errors.Is(err, syscall.ENOSPC) || runs != 1 || count(t, d) != 1 {
		t.Errorf("without a reserve: %v after %d runs, %d rows", err, runs, count(t, d))
	}
	if err := d.Refill(); err != nil {
		t.Fatal(err)
	}
	if err := write("b", 2); !errors.Is(err, syscall.ENOSPC) || runs != 2 || count(t, d) != 1 {
		t.Errorf("a disk that stays full: %v after %d runs, %d rows", err, runs, count(t, d))
	}
}
