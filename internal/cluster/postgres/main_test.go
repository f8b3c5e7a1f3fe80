//go:build cluster

package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/enginetest"
	"github.com/mapwright/mapwright/internal/test/pgtest"
)

// server is the one of all tests. It is set before they begin.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	if server, err = pgtest.Start("max_connections=50"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := server.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// database makes a database for a test and returns its address.
func database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%x", cluster.NewID())
	admin := connect(t, server.URL("postgres"))
	exec(t, admin, `CREATE DATABASE `+name)
	return server.URL(name)
}

// connect makes a connection beside those of the engine, for the length of the test.
func connect(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// open opens an engine, and closes it when the test ends.
func open(t testing.TB, address string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// proxy makes a proxy to the server of all tests.
func proxy(t *testing.T) *pgtest.Proxy {
	t.Helper()
	p, err := pgtest.NewProxy(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// name is that of the database of an address.
func name(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// harness opens an engine through a proxy.
func harness(t *testing.T, address string) *enginetest.Harness {
	t.Helper()
	p := proxy(t)
	direct := open(t, address)
	return &enginetest.Harness{
		Engine:  open(t, p.URL(name(t, address))),
		Advance: func(d time.Duration) { advance(t, direct, d) },
		Save:    func() func() { return save(t, address) },
		Lose:    p.Lose,
	}
}

// advance makes all stored times older, which is the same as a clock that is set
// forward.
func advance(t *testing.T, e *Engine, d time.Duration) {
	err := e.transact(t.Context(), func(tx pgx.Tx) error {
		for _, sql := range []string{
			`UPDATE mapwright_crawl SET created = created - $1::interval, active = active - $1::interval`,
			`UPDATE mapwright_session SET joined = joined - $1::interval, since = since - $1::interval, beat = beat - $1::interval`,
			`UPDATE mapwright_part SET last_beat = last_beat - $1::interval WHERE last_beat IS NOT NULL`,
		} {
			if _, err := tx.Exec(t.Context(), sql, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// save copies all tables.
func save(t *testing.T, address string) (restore func()) {
	t.Helper()
	conn := connect(t, address)
	tables := list(t, conn, `SELECT tablename FROM pg_tables WHERE tablename LIKE 'mapwright_%'`)
	for _, name := range tables {
		exec(t, conn, `CREATE TEMPORARY TABLE saved_`+name[len("mapwright_"):]+` AS SELECT * FROM `+name)
	}
	return func() {
		for _, name := range tables {
			exec(t, conn, `DELETE FROM `+name)
			exec(t, conn, `INSERT INTO `+name+` SELECT * FROM saved_`+name[len("mapwright_"):])
		}
	}
}
