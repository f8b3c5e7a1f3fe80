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

// A server is what a server says about itself, or what the nodes of a Redis Cluster have in common.
type server struct {
	name     string // of the program and its version
	nodes    int
	loss     loss // that of the node that can lose most
	replicas int  // of the node that has fewest
	waitAOF  bool // a write can wait for the disks of replicas
}

// A loss is what a crash of a server can cost, from little to much.
type loss int

const (
	lossNothing loss = iota
	lossSeconds
	lossHalfMinute
	lossNotKnown
	lossSinceSnapshot
	lossEverything
)

func (l loss) String() string {
	return [...]string{
		"appendonly is on with appendfsync always: a crash of the server loses nothing",
		"appendonly is on with appendfsync everysec: a power failure, or a crash while the disk is busy, can lose the " +
			"last two seconds, whose pages are then crawled again",
		"appendonly is on with appendfsync no: a power failure can lose the last half minute, whose pages are then " +
			"crawled again",
		"appendonly is on: what a power failure loses depends on appendfsync, which cannot be read; pages whose " +
			"records are lost are crawled again",
		"appendonly is off: a crash of the server loses everything since its last snapshot, which is then crawled " +
			"again; turn appendonly on",
		"appendonly is off: a crash of the server can lose the whole crawl; turn appendonly on",
	}[l]
}

// check reads what the server says about itself, each node of a Redis Cluster, and refuses one that would lose data on
// purpose.
func (e *Engine) check(ctx context.Context) error {
	nodes, err := e.client.masters(ctx)
	if err != nil {
		return err
	}
	for i, node := range nodes {
		s, err := e.checkNode(ctx, node)
		if err != nil {
			return err
		}
		if i > 0 {
			s.loss = max(s.loss, e.server.loss)
			s.replicas = min(s.replicas, e.server.replicas)
			s.waitAOF = s.waitAOF && e.server.waitAOF
		}
		s.nodes = i + 1
		e.server = s
	}
	return e.checkVersion(ctx)
}

// checkNode reads what a node says about itself.
func (e *Engine) checkNode(ctx context.Context, node string) (s server, err error) {
	info, err := parseInfo(e.client.doAt(ctx, node, "INFO"))
	if err != nil {
		return s, err
	}
	version := info["redis_version"] // of Valkey, the version of Redis that it is like
	s.name = "Redis " + version
	if v := info["valkey_version"]; v != "" {
		s.name = "Valkey " + v
	}
	policy := info["maxmemory_policy"]
	switch {
	case !atLeast(version, 6, 2):
		return s, usage("the server is %s: Redis 6.2 or Valkey 7.2 is needed", s.name)
	case node == theServer && info["cluster_enabled"] == "1":
		return s, usage("the server is a node of a Redis Cluster: the address must begin with redis+cluster:// or " +
			"rediss+cluster://")
	case policy != "" && policy != "noeviction":
		return s, usage("the server's setting maxmemory-policy is %s: it would delete parts of a crawl when its memory "+
			"is used up; set it to noeviction", policy)
	case info["role"] != "" && info["role"] != "master":
		return s, fmt.Errorf("the server is a replica, which accepts no writes: %w", cluster.ErrAway)
	}
	s.replicas, _ = strconv.Atoi(info["connected_slaves"])
	// A server may not let its settings be read.
	settings := map[string]string{}
	for _, name := range []string{"appendfsync", "save"} {
		if pair, err := driver.Strings(e.client.doAt(ctx, node, "CONFIG", "GET", name)); err == nil && len(pair) == 2 {
			settings[name] = pair[1]
		}
	}
	s.loss = lossOf(info["aof_enabled"] == "1", settings["appendfsync"], settings["save"])
	s.waitAOF = s.loss == lossNothing && atLeast(version, 7, 2)
	return s, nil
}

// lossOf is what settings mean. Fsync and save are empty if the server does not tell.
func lossOf(aof bool, fsync, save string) loss {
	switch {
	case aof && fsync == "always":
		return lossNothing
	case aof && fsync == "everysec":
		return lossSeconds
	case aof && fsync == "no":
		return lossHalfMinute
	case aof:
		return lossNotKnown
	case save != "":
		return lossSinceSnapshot
	default:
		return lossEverything
	}
}

// checkVersion compares the version of the keys with that of this program. A user who may not write reads only.
func (e *Engine) checkVersion(ctx context.Context) error {
	set, err := driver.Int(e.client.do(ctx, versionKey, "SETNX", versionKey, schemaVersion))
	if err != nil && !hasCode(err, []string{"NOPERM", outOfMemory}) {
		return err
	}
	if set == 1 {
		return nil
	}
	version, err := driver.Int(e.client.do(ctx, versionKey, "GET", versionKey))
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

// parseInfo reads the answer to INFO: values by name.
func parseInfo(answer any, err error) (map[string]string, error) {
	text, err := driver.String(answer, err)
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
	crash := fmt.Sprintf("%s: %s", s.name, s.loss)
	if e.client.address.cluster {
		crash = fmt.Sprintf("%s, a cluster of %d nodes: %s", s.name, s.nodes, s.loss)
	}
	switch {
	case s.replicas == 0 && s.nodes > 1:
		return crash + "; there is a node without replica"
	case s.replicas == 0:
		return crash + "; no replica"
	case e.wait.replicas > 0 && e.wait.disk:
		return fmt.Sprintf("%s; %d of %d replicas must have a write on their disks before it is acknowledged", crash,
			e.wait.replicas, s.replicas)
	case e.wait.replicas > 0:
		return fmt.Sprintf("%s; %d of %d replicas must have a write before it is acknowledged", crash, e.wait.replicas,
			s.replicas)
	}
	return fmt.Sprintf("%s; a failover to one of %d replicas can lose what was not replicated yet, which is then "+
		"crawled again (--redis-wait-replicas waits for them)", crash, s.replicas)
}

const (
	// fullAt and roomAt are parts of maxmemory in percent. Above the first nothing is committed, until the server has
	// less than the second. The rest is for beats and takeovers.
	fullAt, roomAt = 95, 92

	pauses = "the crawl pauses until there is room; raise maxmemory, or delete something"
)

// memory reads what the server uses that has a crawl, and what it may use, 0 for no limit.
func (e *Engine) memory(ctx context.Context, id cluster.CrawlID) (used, most uint64, err error) {
	info, err := parseInfo(e.client.do(ctx, prefix(id), "INFO", "memory"))
	used, _ = strconv.ParseUint(info["used_memory"], 10, 64)
	most, _ = strconv.ParseUint(info["maxmemory"], 10, 64)
	return used, most, err
}

// measure finds out whether the server has memory for more.
func (e *Engine) measure(ctx context.Context, id cluster.CrawlID) {
	used, most, err := e.memory(ctx, id)
	if err != nil {
		return // the call that follows says so
	}
	limit := most / 100 * fullAt
	if e.full.Load() != nil {
		limit = most / 100 * roomAt
	}
	if most == 0 || used < limit {
		e.full.Store(nil)
		return
	}
	text := fmt.Sprintf("the server uses %s of maxmemory %s: %s", humanize.IBytes(used), humanize.IBytes(most), pauses)
	e.full.Store(&text)
}

// Memory implements [cluster.Sizer].
func (e *Engine) Memory(ctx context.Context, id cluster.CrawlID) (m cluster.Memory, err error) {
	if m.Used, m.Most, err = e.memory(ctx, id); err != nil {
		return m, e.classify("read the server's memory", err, false)
	}
	r, err := e.run(ctx, id, "memory")
	if err != nil {
		return m, e.classify("read the crawl's memory", err, false)
	}
	d := decoder{}
	m.Crawl = uint64(d.int(r.at(1)))
	return m, e.classify("read the crawl's memory", d.err, false)
}
