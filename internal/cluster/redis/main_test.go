//go:build cluster

package redis

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/test/enginetest"
	"github.com/mapwright/mapwright/internal/test/redistest"
)

// shared is the server of all tests. It is set before they begin.
var shared *redistest.Server

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	// A disk that is slow for a moment would let leases expire.
	if shared, err = redistest.Start("--databases", "64", "--appendfsync", "no"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// lastDatabase is the number of the database of the last test.
var lastDatabase atomic.Int32

// database returns the number of a database that no other test uses.
func database(t testing.TB) int {
	t.Helper()
	n := int(lastDatabase.Add(1))
	if n >= 64 {
		t.Fatal("the server has no database left")
	}
	return n
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

// A place has engines of tests: a database of a server, or a Redis Cluster.
type place struct {
	address string // through the lines
	lines   []*redistest.Proxy
	stores  []store
}

// A store sends a command to a server, without a proxy.
type store func(command string, args ...any) (any, error)

// onServer is an empty database of the shared server.
func onServer(t *testing.T) place {
	t.Helper()
	number := database(t)
	p, err := redistest.NewProxy(shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	direct := open(t, shared.URL(number))
	return place{p.URL(number), []*redistest.Proxy{p}, []store{func(command string, args ...any) (any, error) {
		return direct.client.do(t.Context(), "", command, args...)
	}}}
}

// onCluster is a Redis Cluster of three nodes.
func onCluster(t *testing.T) place {
	t.Helper()
	c := startCluster(t, false, true)
	p := place{address: c.URL(), lines: c.Lines}
	for _, s := range c.Nodes {
		p.stores = append(p.stores, s.Do)
	}
	return p
}

func startCluster(t *testing.T, replicas, proxied bool) *redistest.Cluster {
	t.Helper()
	c, err := redistest.StartCluster(3, replicas, proxied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// places are where the tests of every engine run.
var places = map[string]func(*testing.T) place{"server": onServer, "cluster": onCluster}

// harness opens an engine at a place.
func (p place) harness(t *testing.T) *enginetest.Harness {
	t.Helper()
	for _, line := range p.lines {
		line.LoseNothing() // the last harness had its crawl at another node
	}
	return &enginetest.Harness{
		Engine:  open(t, p.address),
		Advance: func(d time.Duration) { p.advance(t, d) },
		Save:    func() func() { return p.save(t) },
		Lose: func(done bool) {
			for _, line := range p.lines {
				line.Lose(done)
			}
		},
	}
}

// older makes all stored times older, which is the same as a clock that is set forward.
const older = `
local function change(key, field)
  local v = redis.call('HGET', key, field)
  if v and v ~= '0' then redis.call('HSET', key, field, string.format('%.0f', v - ARGV[1])) end
end
for _, key in ipairs(redis.call('KEYS', 'mapwright:*')) do
  if key:find('}:crawl$') then
    for _, f in ipairs({'created', 'active', 'begun'}) do change(key, f) end
  elseif key:find('}:s:') then
    for _, f in ipairs({'joined', 'since', 'beat'}) do change(key, f) end
  elseif key:find('}:parts$') then
    for n = 0, 255 do change(key, 'b' .. n) end
  end
end`

func (p place) advance(t *testing.T, d time.Duration) {
	for _, do := range p.stores {
		if _, err := do("EVAL", older, 0, d.Microseconds()); err != nil {
			t.Error(err)
		}
	}
}

// save copies all keys.
func (p place) save(t *testing.T) (restore func()) {
	t.Helper()
	var restores []func()
	for _, do := range p.stores {
		restores = append(restores, do.save(t))
	}
	return func() {
		t.Helper()
		for _, restore := range restores {
			restore()
		}
	}
}

func (s store) save(t *testing.T) (restore func()) {
	t.Helper()
	do := func(command string, args ...any) any {
		t.Helper()
		v, err := s(command, args...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	saved := map[string]any{}
	keys, err := driver.Strings(do("KEYS", "mapwright:*"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		saved[key] = do("DUMP", key)
	}
	return func() {
		t.Helper()
		do("FLUSHDB")
		for key, value := range saved {
			do("RESTORE", key, 0, value)
		}
	}
}
