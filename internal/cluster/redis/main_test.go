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

// harness opens an engine through a proxy.
func harness(t *testing.T, number int) *enginetest.Harness {
	t.Helper()
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
	return &enginetest.Harness{
		Engine:  open(t, p.URL(number)),
		Advance: func(d time.Duration) { advance(t, direct, d) },
		Save:    func() func() { return save(t, direct) },
		Lose:    p.Lose,
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

func advance(t *testing.T, e *Engine, d time.Duration) {
	if _, err := e.client.do(t.Context(), "EVAL", older, 0, d.Microseconds()); err != nil {
		t.Error(err)
	}
}

// save copies all keys.
func save(t *testing.T, e *Engine) (restore func()) {
	t.Helper()
	do := func(command string, args ...any) any {
		t.Helper()
		v, err := e.client.do(t.Context(), command, args...)
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
