//go:build cluster

package cluster

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/test/redistest"
)

// The tests run against Redis as people set it up: a single server, a server that sentinels name, a Redis Cluster of
// three nodes.
var redisLayout = flag.String("redis", single, "how Redis runs: single, sentinel or cluster")

const (
	single   = "single"
	sentinel = "sentinel"
	several  = "cluster"
)

// databases is how many sharedRedis has.
const databases = 100

// sharedRedis is the server of all tests that do not stop it, but those of a Redis Cluster, which has one database only.
// It has an append-only file, and ends with the process of the tests.
var sharedRedis = sync.OnceValues(func() (*redistest.Server, error) {
	s, err := redistest.Start("--databases", fmt.Sprint(databases))
	if err == nil {
		err = addUser(s)
	}
	return s, err
})

// sharedSentinels know sharedRedis by a name for each test.
var sharedSentinels = sync.OnceValues(func() (redistest.Sentinels, error) { return redistest.StartSentinels(3) })

// lastDatabase is the number of the last one on sharedRedis.
var lastDatabase atomic.Int32

// addUser adds the user of the machines.
func addUser(s *redistest.Server) error {
	_, err := s.Do("ACL", "SETUSER", "crawler", "on", ">"+secret, "allkeys", "allcommands")
	return err
}

// withUser adds the user of the machines to an address.
func withUser(address string) string {
	return strings.Replace(address, "://", "://crawler:"+secret+"@", 1)
}

// must ends the test if there is an error.
func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newRedis returns a database for one test.
func newRedis(t *testing.T) database {
	t.Helper()
	switch *redisLayout {
	case several:
		return newRedisCluster(t)
	case single, sentinel:
	default:
		t.Fatalf("-redis is %s", *redisLayout)
	}
	server, err := sharedRedis()
	must(t, server, err)
	n := int(lastDatabase.Add(1))
	if n >= databases {
		t.Fatal("the server has no database left")
	}
	p := proxyToRedis(t, server)
	address := p.URL(n)
	if *redisLayout == sentinel {
		sentinels, err := sharedSentinels()
		must(t, sentinels, err)
		name := fmt.Sprint("test", n)
		// They reach the server through the proxy too, and must not do anything when it is away.
		if err := sentinels.Watch(name, p.Addr().Port, time.Hour); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, s := range sentinels {
				if _, err := s.Do("SENTINEL", "REMOVE", name); err != nil {
					t.Error(err)
				}
			}
		})
		address = fmt.Sprint(sentinels.URL(name), "/", n)
	}
	return database{withUser(address), server.URL(n), lines{p.Proxy}, redisServers{{server, n}}}
}

// newRedisCluster returns a Redis Cluster. Its nodes name the addresses of proxies, so there is no other way to it.
func newRedisCluster(t *testing.T) database {
	t.Helper()
	c, err := redistest.StartCluster(3, false, true)
	removing(t, c, err)
	d := database{address: withUser(c.URL()), direct: c.URL()}
	for i, s := range c.Nodes {
		if err := addUser(s); err != nil {
			t.Fatal(err)
		}
		d.lines = append(d.lines, c.Lines[i].Proxy)
		d.redis = append(d.redis, redisServer{s, 0})
	}
	return d
}

func proxyToRedis(t *testing.T, s *redistest.Server) *redistest.Proxy {
	t.Helper()
	p, err := redistest.NewProxy(s)
	return closing(t, p, err)
}

// ownRedis starts servers without replicas for one test, which may change their settings.
func ownRedis(t *testing.T) (address string, servers []*redistest.Server) {
	t.Helper()
	if *redisLayout == several {
		c, err := redistest.StartCluster(3, false, false)
		removing(t, c, err)
		return c.URL(), c.Nodes
	}
	s, err := redistest.Start()
	removing(t, s, err)
	if *redisLayout == sentinel {
		return ownSentinels(t, s, time.Hour), []*redistest.Server{s}
	}
	return s.URL(0), []*redistest.Server{s}
}

// ownSentinels starts sentinels that watch a server, and returns their address.
func ownSentinels(t *testing.T, s *redistest.Server, after time.Duration) string {
	t.Helper()
	const name = "crawls"
	sentinels, err := redistest.StartSentinels(3)
	removing(t, sentinels, err)
	if err := sentinels.Watch(name, s.Port(), after); err != nil {
		t.Fatal(err)
	}
	return sentinels.URL(name)
}

// redisServers are the servers that have a database.
type redisServers []redisServer

type redisServer struct {
	*redistest.Server
	database int
}

// eval runs a script with no keys on each server.
func (l redisServers) eval(t *testing.T, script string, args ...any) (answers []any) {
	t.Helper()
	for _, s := range l {
		all := append([]any{"redis.call('SELECT', ARGV[1])\n" + script, 0, s.database}, args...)
		answer, err := s.Do("EVAL", all...)
		answers = append(answers, must(t, answer, err))
	}
	return answers
}

// clock is the time of the servers, and the last beat of a session.
func (l redisServers) clock(t *testing.T) (now, beat time.Time) {
	t.Helper()
	for _, answer := range l.eval(t, `local t, last = redis.call('TIME'), 0
		for _, key in ipairs(redis.call('KEYS', '*}:s:*')) do
			last = math.max(last, tonumber(redis.call('HGET', key, 'beat')))
		end
		return {t[1] * 1000000 + t[2], last}`) {
		micros, err := driver.Int64s(answer, nil)
		must(t, micros, err)
		now = time.UnixMicro(micros[0])
		if at := time.UnixMicro(micros[1]); at.After(beat) {
			beat = at
		}
	}
	return now, beat
}

// setIdentity changes the rules for URLs of all crawls.
func (l redisServers) setIdentity(t *testing.T, identity string) {
	t.Helper()
	l.eval(t, `for _, key in ipairs(redis.call('KEYS', '*}:crawl')) do redis.call('HSET', key, 'identity', ARGV[2]) end
		return 0`, identity)
}

// eachValue calls do with each value.
func (l redisServers) eachValue(t *testing.T, do func(where string, content []byte)) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []byte:
			do("a value of Redis", v)
		case []any:
			for _, part := range v {
				walk(part)
			}
		}
	}
	walk(l.eval(t, `
		local read = {string = {'GET'}, hash = {'HGETALL'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'},
			zset = {'ZRANGE', 0, -1}, stream = {'XRANGE', '-', '+'}}
		local all = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local how = read[redis.call('TYPE', key).ok]
			all[#all + 1] = redis.call(how[1], key, unpack(how, 2))
		end
		return all`))
}

// newRedisPair starts two servers, or as many as a Redis Cluster with replicas has.
func newRedisPair(t *testing.T, synchronous bool) *pair {
	t.Helper()
	if *redisLayout != single {
		return newRedisGroup(t, synchronous)
	}
	primary, err := redistest.Start(keeping(synchronous)...)
	removing(t, primary, err)
	line := proxyToRedis(t, primary)
	replica, err := primary.Replica(line)
	removing(t, replica, err)
	p := proxyToRedis(t, primary)
	return &pair{p.URL(0) + waiting(synchronous), cutting(line.Proxy), primary.Crash, primary.Run, func() error {
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

// waiting is the option of an address by which a write is acknowledged when a replica has it.
func waiting(synchronous bool) string {
	if synchronous {
		return "?wait_replicas=1"
	}
	return ""
}

// keeping are the settings by which a server that is killed has all that it acknowledged when it runs again. Otherwise
// writes are up to two seconds late while the disk is busy, and a replica forgets what its master does not have.
func keeping(synchronous bool) []string {
	if synchronous {
		return []string{"--appendfsync", "always"}
	}
	return nil
}

// A group of servers puts a replica in the place of a master by itself.
type group struct {
	servers []*redistest.Server
	masters int
	crashed *redistest.Server // nil if all run
}

func newRedisGroup(t *testing.T, synchronous bool) *pair {
	t.Helper()
	var g group
	var address string
	if *redisLayout == several {
		c, err := redistest.StartCluster(3, true, false, keeping(synchronous)...)
		removing(t, c, err)
		g.servers, g.masters, address = c.Nodes, 3, c.URL()
	} else {
		primary, err := redistest.Start(keeping(synchronous)...)
		removing(t, primary, err)
		replica, err := primary.Replica(nil)
		removing(t, replica, err)
		after := time.Second
		if !synchronous {
			after = 10 * time.Second // sentinels take no replica that was cut off for ten times as long
		}
		g.servers, g.masters, address = []*redistest.Server{primary, replica}, 1, ownSentinels(t, primary, after)
	}
	return &pair{address + waiting(synchronous), g.behind, g.crash, g.run, func() error {
		if err := redistest.Await("a replica has taken the place of the master", func() (bool, error) {
			return g.holder() != nil, nil
		}); err != nil {
			return err
		}
		if !synchronous {
			return nil
		}
		return g.run() // the machines wait for a replica of the new master
	}}
}

// holder is the master that has a crawl, nil if there is none now.
func (g *group) holder() *redistest.Server {
	for _, s := range g.servers {
		n, err := driver.Int(s.Do("EVAL", `return #redis.call('KEYS', 'mapwright:{*}:crawl')`, 0))
		if err == nil && n > 0 && s.IsMaster() {
			return s
		}
	}
	return nil
}

// behind lets no replica get anything more.
func (g *group) behind() error {
	var faults []error
	for _, s := range g.servers {
		if !s.IsMaster() {
			faults = append(faults, s.FallBehind())
		}
	}
	return errors.Join(faults...)
}

// crash kills the master that has the crawl.
func (g *group) crash() error {
	if g.crashed = g.holder(); g.crashed == nil {
		return errors.New("no master has the crawl")
	}
	return g.crashed.Crash()
}

// run starts the server that was killed, and waits until each master has its replica: only then another may be killed.
func (g *group) run() error {
	if err := g.crashed.Run(); err != nil {
		return err
	}
	g.crashed = nil
	return redistest.Await("each master has a replica", func() (bool, error) {
		masters, replicas := 0, 0
		for _, s := range g.servers {
			if follows, _ := s.Follows(); follows {
				replicas++
			} else if s.IsMaster() {
				masters++
			}
		}
		return masters == g.masters && replicas == g.masters, nil
	})
}
