package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	driver "github.com/gomodule/redigo/redis"

	"github.com/mapwright/mapwright/internal/cluster"
)

// schemaVersion is the version of the keys that this program writes.
const schemaVersion = 1

// versionKey has the version of the keys of a server.
const versionKey = "mapwright:schema"

// A server is what a server says about itself.
type server struct {
	name     string // of the program and its version
	aof      bool
	fsync    string // appendfsync, empty if the server does not tell
	save     string // when it saves a snapshot, empty for never or if the server does not tell
	replicas int
}

// check reads what the server says about itself, and refuses one that would lose data on purpose.
func (e *Engine) check(ctx context.Context) error {
	info, err := e.info(ctx)
	if err != nil {
		return err
	}
	s := &e.server
	version := info["redis_version"] // of Valkey, the version of Redis that it is like
	s.name = "Redis " + version
	if v := info["valkey_version"]; v != "" {
		s.name = "Valkey " + v
	}
	s.aof = info["aof_enabled"] == "1"
	s.replicas, _ = strconv.Atoi(info["connected_slaves"])
	if !atLeast(version, 6, 2) {
		return usage("the server is %s: Redis 6.2 or Valkey 7.2 is needed", s.name)
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		return usage("the server's setting maxmemory-policy is %s: it would delete parts of a crawl when its memory "+
			"is used up; set it to noeviction", policy)
	}
	if info["role"] != "" && info["role"] != "master" {
		return fmt.Errorf("the server is a replica, which accepts no writes: %w", cluster.ErrAway)
	}
	// A server may not let its settings be read.
	for name, value := range map[string]*string{"appendfsync": &s.fsync, "save": &s.save} {
		if pair, err := driver.Strings(e.client.do(ctx, "CONFIG", "GET", name)); err == nil && len(pair) == 2 {
			*value = pair[1]
		}
	}
	return e.checkVersion(ctx)
}

// checkVersion compares the version of the keys with that of this program. A user who may not write reads only.
func (e *Engine) checkVersion(ctx context.Context) error {
	set, err := driver.Int(e.client.do(ctx, "SETNX", versionKey, schemaVersion))
	if err != nil && !hasCode(err, []string{"NOPERM", outOfMemory}) {
		return err
	}
	if set == 1 {
		return nil
	}
	version, err := driver.Int(e.client.do(ctx, "GET", versionKey))
	switch {
	case errors.Is(err, driver.ErrNil):
		return nil
	case err != nil:
		return err
	case version > schemaVersion:
		return fmt.Errorf("%w: it has version %d, this program knows up to %d", cluster.ErrNewer, version,
			schemaVersion)
	}
	return nil
}

// info reads what the server says about itself, by name.
func (e *Engine) info(ctx context.Context, section ...any) (map[string]string, error) {
	text, err := driver.String(e.client.do(ctx, "INFO", section...))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all, nil
}

// atLeast compares a version such as 7.0.15.
func atLeast(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n < 2 {
		return true // not known
	}
	return a > major || a == major && b >= minor
}

// Durability says in one sentence what a crash of the server can cost with its settings.
func (e *Engine) Durability() string {
	s := &e.server
	var crash string
	switch {
	case s.aof && s.fsync == "always":
		crash = "appendonly is on with appendfsync always: a crash of the server loses nothing"
	case s.aof && s.fsync == "everysec":
		crash = "appendonly is on with appendfsync everysec: a power failure can lose about the last second, whose " +
			"pages are then crawled again"
	case s.aof && s.fsync == "no":
		crash = "appendonly is on with appendfsync no: a power failure can lose the last half minute, whose pages " +
			"are then crawled again"
	case s.aof:
		crash = "appendonly is on: what a power failure loses depends on appendfsync, which cannot be read; pages " +
			"whose records are lost are crawled again"
	case s.save != "":
		crash = "appendonly is off: a crash of the server loses everything since its last snapshot, which is then " +
			"crawled again; turn appendonly on"
	default:
		crash = "appendonly is off: a crash of the server can lose the whole crawl; turn appendonly on"
	}
	crash = s.name + ": " + crash
	switch {
	case s.replicas == 0:
		return crash + "; no replica"
	case e.replicas > 0:
		return fmt.Sprintf("%s; %d of %d replicas must have a write before it is acknowledged", crash, e.replicas,
			s.replicas)
	}
	return fmt.Sprintf("%s; a failover to one of %d replicas can lose what was not replicated yet, which is then "+
		"crawled again (--redis-wait-replicas waits for them)", crash, s.replicas)
}

const (
	// fullAt and roomAt are parts of maxmemory in percent. Above the first nothing is committed, until the server has
	// less than the second. The rest is for beats and takeovers.
	fullAt, roomAt = 95, 92
)

// measure finds out whether the server has memory for more.
func (e *Engine) measure(ctx context.Context) {
	info, err := e.info(ctx, "memory")
	if err != nil {
		return // the call that follows says so
	}
	used, _ := strconv.ParseUint(info["used_memory"], 10, 64)
	most, _ := strconv.ParseUint(info["maxmemory"], 10, 64)
	limit := most / 100 * fullAt
	if e.full.Load() != nil {
		limit = most / 100 * roomAt
	}
	if most == 0 || used < limit {
		e.full.Store(nil)
		return
	}
	text := fmt.Sprintf("the server uses %s of maxmemory %s: the crawl pauses until there is room; raise maxmemory, "+
		"or delete something", humanize.IBytes(used), humanize.IBytes(most))
	e.full.Store(&text)
}

// Memory implements [cluster.Sizer].
func (e *Engine) Memory(ctx context.Context, id cluster.CrawlID) (m cluster.Memory, err error) {
	info, err := e.info(ctx, "memory")
	if err != nil {
		return m, e.classify("read the server's memory", err, false)
	}
	m.Used, _ = strconv.ParseUint(info["used_memory"], 10, 64)
	m.Most, _ = strconv.ParseUint(info["maxmemory"], 10, 64)
	r, err := e.run(ctx, id, "memory")
	if err != nil {
		return m, e.classify("read the crawl's memory", err, false)
	}
	d := decoder{}
	m.Crawl = uint64(d.int(r.at(1)))
	return m, e.classify("read the crawl's memory", d.err, false)
}
