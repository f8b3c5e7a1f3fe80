//go:build cluster

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/pgtest"
)

// create makes a crawl for a test.
func create(t testing.TB, e *Engine) cluster.Session {
	t.Helper()
	c := cluster.Crawl{ID: cluster.NewID(), Identity: "url=1"}
	c.Name = c.ID.String()
	if err := e.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return cluster.Session{Crawl: c.ID, ID: cluster.NewID(), Machine: cluster.NewID(), Name: "machine"}
}

// join joins a crawl and claims partitions.
func join(t testing.TB, e *Engine, s cluster.Session, parts ...uint8) []cluster.Claimed {
	t.Helper()
	if err := e.Join(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	claimed, err := e.Claim(t.Context(), s, parts)
	if err != nil || len(claimed) != len(parts) {
		t.Fatalf("claimed %v: %v", claimed, err)
	}
	return claimed
}

// nextRow makes the next row of a partition.
func nextRow(c *cluster.Claimed, body []byte) cluster.Write {
	w := cluster.Write{Partition: c.Partition, Epoch: c.Epoch, After: c.Head, Body: body}
	c.Head = w.Head()
	return w
}

// TestSchema opens a new database from several processes at once, then one of a later
// version.
func TestSchema(t *testing.T) {
	address := database(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			e, err := Open(t.Context(), address)
			if errs[i] = err; err == nil {
				_ = e.Close()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, address)
	exec(t, conn, `UPDATE mapwright_schema SET version = $1`, schemaVersion+1)
	_, err := Open(t.Context(), address)
	if !errors.Is(err, cluster.ErrNewer) || !strings.Contains(err.Error(),
		fmt.Sprintf("has version %d, this program knows up to %d", schemaVersion+1, schemaVersion)) {
		t.Errorf("a later schema: %v", err)
	}
}

// TestMigration opens databases of all earlier versions, in the middle of a crawl. They are made by the statements of
// these versions, with what they can hold of a crawl. The session that works on it goes on.
func TestMigration(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			address := database(t)
			e := open(t, address)
			s := create(t, e)
			claimed := join(t, e, s, 1, 2)
			batch := func(number uint64) *cluster.Batch {
				return &cluster.Batch{Number: number, Writes: []cluster.Write{nextRow(&claimed[0], []byte("one")),
					nextRow(&claimed[1], []byte("two"))}}
			}
			first := batch(1)
			first.Scope, first.Sent = []string{"a.example"}, []cluster.Sent{{To: 3, Body: []byte("link")}}
			if err := e.Commit(t.Context(), s, first); err != nil {
				t.Fatal(err)
			}
			before, err := e.Look(t.Context(), s.Crawl, cluster.Known{})
			if err != nil {
				t.Fatal(err)
			}
			conn := connect(t, address)
			makeOld(t, conn, version)
			old := open(t, address+"&search_path=old")
			if now, was := columns(t, conn, "old"), columns(t, conn, "public"); !slices.Equal(now, was) {
				t.Errorf("the tables have\n%q, and those of a new database\n%q", now, was)
			}
			after, err := old.Look(t.Context(), s.Crawl, cluster.Known{})
			if err != nil {
				t.Fatal(err)
			}
			if begun := after.Crawl.Begun.At; begun.Before(after.Crawl.Created) || begun.After(after.Now) {
				t.Errorf("the crawl was made at %v, and its run began at %v", after.Crawl.Created, begun)
			}
			text := func(s *cluster.Snapshot) string {
				// the former grows, and the latter differs by the microsecond between two columns
				s.Crawl.Used, s.Crawl.Begun.At = 0, time.Time{}
				return fmt.Sprintf("%+v %+v %+v %+v %d %q %d", s.Crawl, s.Members, s.Parts[:4], s.Tokens, s.Waiting,
					s.Scope, s.Scopes)
			}
			if got, want := text(after), text(before); got != want {
				t.Errorf("the crawl is\n%s\nand was\n%s", got, want)
			}
			if err := old.Commit(t.Context(), s, batch(2)); err != nil {
				t.Error(err)
			}
			if list, err := old.Read(t.Context(), s.Crawl, 2, cluster.Place{}, 1<<20); err != nil || len(list) != 2 ||
				string(list[1].Body) != "two" {
				t.Errorf("the log has %d rows: %v", len(list), err)
			}
			s.Tally.Pages = 7
			if err := old.Leave(t.Context(), s); err != nil {
				t.Error(err)
			}
			if list, err := old.Sessions(t.Context(), s.Crawl); err != nil || len(list) != 1 || !list[0].Left ||
				list[0].Tally.Pages != 7 {
				t.Errorf("sessions are %+v: %v", list, err)
			}
		})
	}
}

// makeOld makes a schema "old" of an earlier version, with the crawls of the schema of the test.
func makeOld(t *testing.T, conn *pgx.Conn, version int) {
	t.Helper()
	exec(t, conn, `CREATE SCHEMA old`)
	exec(t, conn, `SET search_path = old`)
	for _, step := range migrations[:version] {
		for _, sql := range step {
			exec(t, conn, sql)
		}
	}
	for _, table := range list(t, conn, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`) {
		// the version, and what a crawl has of its own
		exec(t, conn, `CREATE TABLE IF NOT EXISTS old.`+table+` (LIKE public.`+table+` INCLUDING ALL)`)
		names := strings.Join(list(t, conn,
			`SELECT column_name FROM information_schema.columns WHERE table_schema = 'old' AND table_name = $1`, table),
			", ")
		exec(t, conn, `INSERT INTO old.`+table+` (`+names+`) SELECT `+names+` FROM public.`+table)
	}
	exec(t, conn, `UPDATE mapwright_schema SET version = $1`, version)
}

// columns are those of all tables of a schema, with what is declared of them.
func columns(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	return list(t, conn, `SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = $1 ORDER BY table_name, ordinal_position`, schema)
}

// list is the only column of what a query returns.
func list(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestNotDurable opens a database that does not wait for its disk.
func TestNotDurable(t *testing.T) {
	address := database(t)
	open(t, address+"&synchronous_commit=local")
	if _, err := Open(t.Context(), address+"&synchronous_commit=off"); err == nil || errors.Is(err, cluster.ErrAway) ||
		!strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("without waiting for the disk: %v", err)
	}
}

// TestOneCreates has several processes create a crawl of the same name.
func TestOneCreates(t *testing.T) {
	e := open(t, database(t))
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = e.Create(t.Context(), cluster.Crawl{ID: cluster.NewID(), Name: "one"}) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if !errors.Is(err, cluster.ErrExists) {
			t.Error(err)
		}
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 1 || made != 1 {
		t.Errorf("%d calls have made a crawl, %d are listed: %v", made, len(list), err)
	}
}

// TestPrivileges uses roles with the rights that DESIGN.md names.
func TestPrivileges(t *testing.T) {
	address := database(t)
	admin := connect(t, address)
	id := cluster.NewID()
	worker, reader := fmt.Sprintf("worker%x", id), fmt.Sprintf("reader%x", id)
	exec(t, admin, `CREATE ROLE `+worker+` LOGIN`)
	exec(t, admin, `CREATE ROLE `+reader+` LOGIN`)
	exec(t, admin, `CREATE SCHEMA crawls AUTHORIZATION `+worker)
	exec(t, admin, `GRANT USAGE ON SCHEMA crawls TO `+reader)
	exec(t, admin, `ALTER DEFAULT PRIVILEGES FOR ROLE `+worker+` IN SCHEMA crawls GRANT SELECT ON TABLES TO `+reader)
	as := func(role string) string {
		return strings.Replace(address, "postgres@", role+"@", 1) + "&search_path=crawls"
	}
	for _, wrong := range []string{as(reader), strings.Replace(as(worker), "=crawls", "=none", 1)} {
		if _, err := Open(t.Context(), wrong); err == nil || errors.Is(err, cluster.ErrAway) ||
			!strings.Contains(err.Error(), "CREATE SCHEMA") {
			t.Errorf("a role that may not make tables: %v", err)
		}
	}
	e := open(t, as(worker))
	s := create(t, e)
	claimed := join(t, e, s, 1)
	if err := e.Commit(t.Context(), s, &cluster.Batch{Number: 1,
		Writes: []cluster.Write{nextRow(&claimed[0], []byte("row"))}}); err != nil {
		t.Fatal(err)
	}
	r := open(t, as(reader))
	if snap, err := r.Look(t.Context(), s.Crawl, cluster.Known{}); err != nil || snap.Parts[1].Head.Seq != 1 {
		t.Errorf("a reader's snapshot: %v", err)
	}
	if rows, err := r.Read(t.Context(), s.Crawl, 1, cluster.Place{}, 1); err != nil || len(rows) != 1 {
		t.Errorf("a reader reads %d rows: %v", len(rows), err)
	}
	if err := r.Join(t.Context(), s); err == nil || errors.Is(err, cluster.ErrAway) {
		t.Errorf("a reader joins: %v", err)
	}
	if err := e.Delete(t.Context(), s.Crawl); err != nil {
		t.Error(err)
	}
}

// TestRestart ends the server while sessions work. They are told that it is away, and go
// on when it is there again.
func TestRestart(t *testing.T) {
	private, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := private.Remove(); err != nil {
			t.Error(err)
		}
	})
	e := open(t, private.URL("postgres"))
	s := create(t, e)
	claimed := join(t, e, s, 1)
	b := &cluster.Batch{Number: 1, Writes: []cluster.Write{nextRow(&claimed[0], []byte("row"))}}
	if err := e.Commit(t.Context(), s, b); err != nil {
		t.Fatal(err)
	}
	for i, end := range []func() error{private.Stop, private.Crash} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		b = &cluster.Batch{Number: uint64(2 + i), Writes: []cluster.Write{nextRow(&claimed[0], []byte("row"))}}
		if err := e.Commit(t.Context(), s, b); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("commit without a server: %v", err)
		}
		if _, err := e.Beat(t.Context(), s, cluster.Known{}); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("beat without a server: %v", err)
		}
		if _, err := Open(t.Context(), private.URL("postgres")); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("open without a server: %v", err)
		}
		if err := private.Run(); err != nil {
			t.Fatal(err)
		}
		if err := e.Commit(t.Context(), s, b); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := e.Read(t.Context(), s.Crawl, 1, cluster.Place{}, 1<<20)
	if err != nil || len(rows) != 3 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
}

// TestCanceledCommit ends a call while another transaction has the session's row locked.
func TestCanceledCommit(t *testing.T) {
	address := database(t)
	e := open(t, address)
	s := create(t, e)
	claimed := join(t, e, s, 1)
	b := &cluster.Batch{Number: 1, Writes: []cluster.Write{nextRow(&claimed[0], []byte("row"))}}
	lock, err := connect(t, address).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT 1 FROM mapwright_session FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Commit(ctx, s, b) }()
	waitForLock(t, connect(t, address))
	cancel()
	if err := <-done; !errors.Is(err, cluster.ErrAway) {
		t.Errorf("canceled: %v", err)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(t.Context(), s, b); err != nil {
		t.Error(err)
	}
}

// waitForLock returns when a transaction waits for a row.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		err := conn.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeadlock has the server end transactions that lock rows in another order. A
// backend looks for a deadlock once, when it has waited for deadlock_timeout; the other
// transaction waits longer, so that the engine's is ended. Should the engine's have
// looked before the other one waits, the other one is ended, and the test tries again.
func TestDeadlock(t *testing.T) {
	address := database(t)
	e := open(t, address+"&deadlock_timeout=500ms")
	s := create(t, e)
	claimed := join(t, e, s, 1, 2)
	conn, watcher := connect(t, address+"&deadlock_timeout=10s"), connect(t, address)
	ended := false
	for number := uint64(1); !ended; number++ {
		other, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(t.Context(), `SELECT 1 FROM mapwright_part WHERE part = 2 FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		b := &cluster.Batch{Number: number, Writes: []cluster.Write{nextRow(&claimed[0], []byte("row")),
			nextRow(&claimed[1], []byte("row"))}}
		done := make(chan error)
		go func() { done <- e.Commit(t.Context(), s, b) }()
		waitForLock(t, watcher)
		_, err = other.Exec(t.Context(), `SELECT 1 FROM mapwright_part WHERE part = 1 FOR UPDATE`)
		if ended = err == nil; err != nil && code(err) != deadlockDetected {
			t.Fatal(err)
		}
		if err := other.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecrets looks for the password in errors.
func TestSecrets(t *testing.T) {
	const password = "s3cr%t/Word"
	const escaped = "s3cr%25t%2FWord"
	p := proxy(t)
	for _, address := range []string{
		"postgres://user:" + escaped + "@127.0.0.1:1/db",
		"postgres://user:" + escaped + "@127.0.0.1:port/db",
		"postgres://user:" + password + "@127.0.0.1/db",
		"postgres://user:" + escaped + "@127.0.0.1/db?sslmode=wrong",
		"host=127.0.0.1 password='" + password + "' port=x",
		strings.Replace(p.URL("none"), "postgres@", "user:"+escaped+"@", 1),
		strings.Replace(p.URL("none"), "postgres@", "postgres:"+escaped+"@", 1),
	} {
		_, err := Open(t.Context(), address)
		if err == nil {
			t.Errorf("%s: opened", address)
		} else if strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "Word") {
			t.Errorf("the password is in: %v", err)
		} else if strings.ContainsAny(err.Error(), "\n\t") {
			t.Errorf("not one line: %v", err)
		}
	}
}
