//go:build cluster

package cluster

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/postgres"
	"github.com/mapwright/mapwright/internal/cluster/redis"
	"github.com/mapwright/mapwright/internal/results/overview"
	"github.com/mapwright/mapwright/internal/test/netproxy"
	"github.com/mapwright/mapwright/internal/test/pgtest"
)

// What differs between the engines is in this file: how a server is started, fails and is replaced by another.
var engineName = flag.String("engine", "postgres", "the engine of the tests of several machines: postgres or redis")

func isRedis() bool { return *engineName == "redis" }

// onlyPostgres skips a test that is about PostgreSQL itself.
func onlyPostgres(t *testing.T) {
	t.Helper()
	if isRedis() {
		t.Skip("a test of PostgreSQL")
	}
}

// sharedServer is the server of all tests that do not stop it: with fsync, and a synchronous standby. It ends with the
// process of the tests.
var sharedServer = sync.OnceValues(func() (*pgtest.Server, error) {
	primary, err := pgtest.Start("max_connections=200")
	if err != nil {
		return nil, err
	}
	if sharedStandby, err = primary.Standby("standby", nil); err != nil {
		return nil, err
	}
	return primary, primary.Synchronous("standby")
})

// sharedStandby is kept here, because a server that nothing refers to is removed. Only sharedServer writes it.
var sharedStandby *pgtest.Server

const secret = "s3cretWord" // of the users of the databases

// A database is one on a shared server, for one test.
type database struct {
	address string // through the lines, with a password
	direct  string // without the lines, if the engine can be reached so
	lines   lines
	redis   redisServers // nil for PostgreSQL
}

// lines are the proxies in front of all servers of a database.
type lines []*netproxy.Proxy

func (l lines) each(do func(*netproxy.Proxy)) {
	for _, p := range l {
		do(p)
	}
}

func (l lines) Cut()                     { l.each((*netproxy.Proxy).Cut) }
func (l lines) SetAway(away bool)        { l.each(func(p *netproxy.Proxy) { p.SetAway(away) }) }
func (l lines) SetDelay(d time.Duration) { l.each(func(p *netproxy.Proxy) { p.SetDelay(d) }) }
func (l lines) Lose(done bool)           { l.each(func(p *netproxy.Proxy) { p.Lose(done) }) }
func (l lines) LoseAnswers(every int)    { l.each(func(p *netproxy.Proxy) { p.LoseAnswers(every) }) }

func newDatabase(t *testing.T) database {
	t.Helper()
	if isRedis() {
		return newRedis(t)
	}
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t%x", cluster.NewID())
	query(t, server.URL("postgres"), `CREATE DATABASE `+name)
	p := proxyTo(t, server)
	return database{address: strings.Replace(p.URL(name), "postgres@", "postgres:"+secret+"@", 1),
		direct: server.URL(name), lines: lines{p.Proxy}}
}

func proxyTo(t *testing.T, s *pgtest.Server) *pgtest.Proxy {
	t.Helper()
	p, err := pgtest.NewProxy(s)
	return closing(t, p, err)
}

// closing closes something when the test ends.
func closing[T interface{ Close() error }](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// removing removes a server when the test ends.
func removing[T interface{ Remove() error }](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Remove(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// query runs a statement.
func query(t *testing.T, address, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err == nil {
		_, err = conn.Exec(t.Context(), sql)
		_ = conn.Close(context.WithoutCancel(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// engine opens the engine of the fleet, without the proxy, and returns it with a snapshot of the crawl.
func (f *fleet) engine() (e cluster.Engine, snap *cluster.Snapshot) {
	f.t.Helper()
	ctx := f.t.Context()
	var err error
	if isRedis() {
		e, err = redis.Open(ctx, f.database.direct)
	} else {
		e, err = postgres.Open(ctx, f.database.direct)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	crawl, err := overview.Find(ctx, e, clusterCrawl)
	if err == nil {
		snap, err = e.Look(ctx, crawl.ID, cluster.Known{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return e, snap
}

// silence is how long ago the last beat of a session was, by the engine's clock.
func (f *fleet) silence() time.Duration {
	f.t.Helper()
	now, beat := f.clock()
	return now.Sub(beat)
}

// clock is the time by the engine's clock, and the last beat of a session. It is read without the lines.
func (f *fleet) clock() (now, beat time.Time) {
	f.t.Helper()
	if isRedis() {
		return f.database.redis.clock(f.t)
	}
	e, snap := f.engine()
	_ = e.Close()
	for i := range snap.Members {
		if m := &snap.Members[i]; m.Beat.After(beat) {
			beat = m.Beat
		}
	}
	return snap.Now, beat
}

// setIdentity says that a program with other rules for URLs has made the crawl.
func (f *fleet) setIdentity(identity string) {
	f.t.Helper()
	if isRedis() {
		f.database.redis.setIdentity(f.t, identity)
		return
	}
	query(f.t, f.database.direct, `UPDATE mapwright_crawl SET identity = '`+identity+`'`)
}

// A pair of servers: the second follows the first, and takes its place. With several masters, these are the two that
// have the crawl.
type pair struct {
	address string
	behind  func() error // lets the second get nothing more from the first
	crash   func() error // the first
	run     func() error // the first again
	promote func() error // the second, after a crash of the first; machines find it then
}

// newPair starts a pair of servers. If it is synchronous, a write is acknowledged when both have it.
func newPair(t *testing.T, synchronous bool) *pair {
	t.Helper()
	if isRedis() {
		return newRedisPair(t, synchronous)
	}
	primary, err := pgtest.Start("max_connections=50")
	removing(t, primary, err)
	line := proxyTo(t, primary)
	standby, err := primary.Standby("standby", line)
	removing(t, standby, err)
	if synchronous {
		if err := primary.Synchronous("standby"); err != nil {
			t.Fatal(err)
		}
	}
	p := proxyTo(t, primary)
	return &pair{p.URL("postgres"), cutting(line.Proxy), primary.Crash, primary.Run, func() error {
		err := standby.Promote()
		p.SetServer(standby)
		return err
	}}
}

// cutting returns a function that cuts a line for ever.
func cutting(line *netproxy.Proxy) func() error {
	return func() error {
		line.SetAway(true)
		return nil
	}
}
