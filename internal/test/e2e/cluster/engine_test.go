//go:build cluster

package cluster

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/postgres"
	"github.com/mapwright/mapwright/internal/cluster/redis"
	"github.com/mapwright/mapwright/internal/results/overview"
	"github.com/mapwright/mapwright/internal/test/netproxy"
	"github.com/mapwright/mapwright/internal/test/pgtest"
	"github.com/mapwright/mapwright/internal/test/redistest"
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

const (
	databases = 100
	secret    = "s3cretWord" // of the users of the databases
)

// sharedRedis is the same for Redis: a single server with an append-only file.
var sharedRedis = sync.OnceValues(func() (*redistest.Server, error) {
	s, err := redistest.Start("--databases", fmt.Sprint(databases))
	if err == nil {
		_, err = s.Do("ACL", "SETUSER", "crawler", "on", ">"+secret, "allkeys", "allcommands")
	}
	return s, err
})

// lastDatabase is the number of the last one on sharedRedis.
var lastDatabase atomic.Int32

// A database is one on a shared server, for one test.
type database struct {
	address string // through the proxy, with a password
	direct  string
	proxy   *netproxy.Proxy
}

func newDatabase(t *testing.T) database {
	t.Helper()
	if isRedis() {
		server, err := sharedRedis()
		if err != nil {
			t.Fatal(err)
		}
		n := int(lastDatabase.Add(1))
		if n >= databases {
			t.Fatal("the server has no database left")
		}
		p := proxyToRedis(t, server)
		return database{strings.Replace(p.URL(n), "://", "://crawler:"+secret+"@", 1), server.URL(n), p.Proxy}
	}
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t%x", cluster.NewID())
	query(t, server.URL("postgres"), `CREATE DATABASE `+name)
	p := proxyTo(t, server)
	return database{strings.Replace(p.URL(name), "postgres@", "postgres:"+secret+"@", 1), server.URL(name), p.Proxy}
}

func proxyTo(t *testing.T, s *pgtest.Server) *pgtest.Proxy {
	t.Helper()
	p, err := pgtest.NewProxy(s)
	return closing(t, p, err)
}

func proxyToRedis(t *testing.T, s *redistest.Server) *redistest.Proxy {
	t.Helper()
	p, err := redistest.NewProxy(s)
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
		e, err = redis.Open(ctx, f.direct)
	} else {
		e, err = postgres.Open(ctx, f.direct)
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
	e, snap := f.engine()
	defer e.Close()
	var last time.Time
	for i := range snap.Members {
		if m := &snap.Members[i]; m.Beat.After(last) {
			last = m.Beat
		}
	}
	return snap.Now.Sub(last)
}

// now is the time by the engine's clock.
func (f *fleet) now() time.Time {
	f.t.Helper()
	e, snap := f.engine()
	_ = e.Close()
	return snap.Now
}

// setIdentity says that a program with other rules for URLs has made the crawl.
func (f *fleet) setIdentity(identity string) {
	f.t.Helper()
	if !isRedis() {
		query(f.t, f.direct, `UPDATE mapwright_crawl SET identity = '`+identity+`'`)
		return
	}
	e, snap := f.engine()
	_ = e.Close()
	server, err := sharedRedis()
	if err == nil {
		n := f.direct[strings.LastIndex(f.direct, "/")+1:]
		_, err = server.Do("EVAL", `redis.call('SELECT', ARGV[1]) return redis.call('HSET', KEYS[1], 'identity', ARGV[2])`,
			1, "mapwright:{"+snap.Crawl.ID.String()+"}:crawl", n, identity)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// A pair of servers: the second follows the first, and takes its place.
type pair struct {
	address    string          // through a proxy
	line       *netproxy.Proxy // between the two
	crash, run func() error    // of the first
	promote    func() error    // the second, to which the proxy leads then
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
	return &pair{p.URL("postgres"), line.Proxy, primary.Crash, primary.Run, func() error {
		err := standby.Promote()
		p.SetServer(standby)
		return err
	}}
}

func newRedisPair(t *testing.T, synchronous bool) *pair {
	t.Helper()
	primary, err := redistest.Start()
	removing(t, primary, err)
	line := proxyToRedis(t, primary)
	replica, err := primary.Replica(line)
	removing(t, replica, err)
	p := proxyToRedis(t, primary)
	address := p.URL(0)
	if synchronous {
		address += "?wait_replicas=1"
	}
	return &pair{address, line.Proxy, primary.Crash, primary.Run, func() error {
		if err := replica.Promote(); err != nil {
			return err
		}
		p.SetServer(replica)
		if !synchronous {
			return nil
		}
		// The machines wait for a replica of the new server: the old one comes back as such.
		if err := primary.Run(); err != nil {
			return err
		}
		return primary.Follow(replica.Port())
	}}
}
