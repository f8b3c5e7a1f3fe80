//go:build cluster

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/pgtest"
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
	if !errors.Is(err, cluster.ErrNewer) || !strings.Contains(err.Error(), fmt.Sprintf("has version %d, this program knows up to %d", schemaVersion+1, schemaVersion)) {
		t.Errorf("a later schema: %v", err)
	}
}

// TestNotDurable opens a database that does not wait for its disk.
func TestNotDurable(t *testing.T) {
	address := database(t)
	open(t, address+"&synchronous_commit=local")
	if _, err := Open(t.Context(), address+"&synchronous_commit=off"); err == nil || errors.Is(err, cluster.ErrAway) || !strings.Contains(err.Error(), "synchronous_commit is off") {
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
	e := open(t, as(worker))
	s := create(t, e)
	claimed := join(t, e, s, 1)
	if err := e.Commit(t.Context(), s, &cluster.Batch{Number: 1, Writes: []cluster.Write{nextRow(&claimed[0], []byte("row"))}}); err != nil {
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
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting)
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
		b := &cluster.Batch{Number: number, Writes: []cluster.Write{nextRow(&claimed[0], []byte("row")), nextRow(&claimed[1], []byte("row"))}}
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
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := refused.Addr().String()
	_ = refused.Close()
	p := proxy(t)
	for _, address := range []string{
		"postgres://user:" + escaped + "@" + closed + "/db",
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
