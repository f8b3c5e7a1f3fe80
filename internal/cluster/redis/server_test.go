//go:build cluster

package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/redistest"
)

// private starts a server for one test.
func private(t testing.TB, settings ...string) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func do(t testing.TB, s *redistest.Server, command string, args ...any) any {
	t.Helper()
	v, err := s.Do(command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

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

// next makes the next batch of a partition.
func next(c *cluster.Claimed, number uint64, body []byte) *cluster.Batch {
	w := cluster.Write{Partition: c.Partition, Epoch: c.Epoch, After: c.Head, Body: body}
	c.Head = w.Head()
	return &cluster.Batch{Number: number, Writes: []cluster.Write{w}}
}

// Settings of a server are read when it is opened: one that would evict keys is refused, and what a crash can cost is
// said.
func TestSettings(t *testing.T) {
	s := private(t)
	for _, c := range []struct{ appendonly, fsync, save, says string }{
		{"yes", "always", "", "loses nothing"}, {"yes", "everysec", "", "the last two seconds"},
		{"yes", "no", "", "last half minute"}, {"no", "always", "", "the whole crawl"},
		{"no", "always", "60 1", "since its last snapshot"},
	} {
		do(t, s, "CONFIG", "SET", "appendonly", c.appendonly, "appendfsync", c.fsync, "save", c.save)
		if got := open(t, s.URL(0)).Durability(); !strings.Contains(got, c.says) || !strings.Contains(got, "no replica") {
			t.Errorf("%+v: %s", c, got)
		}
	}
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if _, err := Open(t.Context(), s.URL(0)); err == nil || errors.Is(err, cluster.ErrAway) ||
		!strings.Contains(err.Error(), "maxmemory-policy is allkeys-lru") {
		t.Errorf("a server that evicts keys: %v", err)
	}
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	do(t, s, "SET", versionKey, schemaVersion+1)
	if _, err := Open(t.Context(), s.URL(0)); !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("keys of a later version: %v", err)
	}
}

// A server that is killed has what it acknowledged when it runs again, with appendfsync always; meanwhile it is away.
func TestRestart(t *testing.T) {
	s := private(t, "--appendfsync", "always")
	e := open(t, s.URL(0))
	session := create(t, e)
	claimed := join(t, e, session, 1)
	for number := uint64(1); number <= 3; number++ {
		b := next(&claimed[0], number, []byte("row"))
		if number > 1 {
			if err := s.Crash(); err != nil {
				t.Fatal(err)
			}
			if err := e.Commit(t.Context(), session, b); !errors.Is(err, cluster.ErrAway) &&
				!errors.Is(err, cluster.ErrUnknown) {
				t.Errorf("commit without a server: %v", err)
			}
			if _, err := Open(t.Context(), s.URL(0)); !errors.Is(err, cluster.ErrAway) {
				t.Errorf("open without a server: %v", err)
			}
			if err := s.Run(); err != nil {
				t.Fatal(err)
			}
		}
		err := e.Commit(t.Context(), session, b)
		for errors.Is(err, cluster.ErrAway) || errors.Is(err, cluster.ErrUnknown) { // connections of before
			err = e.Commit(t.Context(), session, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := e.Read(t.Context(), session.Crawl, 1, cluster.Place{}, 1<<20); err != nil || len(rows) != 3 {
		t.Errorf("%d rows: %v", len(rows), err)
	}
}

// A replica that was behind takes the server's place: what was acknowledged and is lost is found out. With
// wait_replicas a write that the replica does not have is not acknowledged.
func TestFailover(t *testing.T) {
	s := private(t)
	line, err := redistest.NewProxy(s)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	replica, err := s.Replica(line)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Remove() })
	p, err := redistest.NewProxy(s)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e, waits := open(t, p.URL(0)), open(t, p.URL(0)+"?wait_replicas=1")
	for text, engine := range map[string]*Engine{"can lose what was not replicated": e, "1 of 1 replicas must": waits} {
		if got := engine.Durability(); !strings.Contains(got, text) {
			t.Errorf("durability: %s", got)
		}
	}
	session := create(t, waits)
	claimed := join(t, waits, session, 1)
	if err := waits.Commit(t.Context(), session, next(&claimed[0], 1, []byte("row"))); err != nil {
		t.Fatal(err)
	}
	kept := claimed[0].Head
	line.SetAway(true)
	lost := next(&claimed[0], 2, []byte("row"))
	if err := waits.Commit(t.Context(), session, lost); !errors.Is(err, cluster.ErrUnknown) ||
		!strings.Contains(err.Error(), "replicas") {
		t.Errorf("commit without the replica: %v", err)
	}
	if err := e.Commit(t.Context(), session, lost); err != nil { // it is there
		t.Fatal(err)
	}
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	p.SetServer(replica)
	again := func(call func() error) error {
		err := call()
		for errors.Is(err, cluster.ErrAway) || errors.Is(err, cluster.ErrUnknown) { // connections of before
			err = call()
		}
		return err
	}
	if err := again(func() error {
		_, err := e.Read(t.Context(), session.Crawl, 1, kept, 1)
		return err
	}); err != nil {
		t.Errorf("what the replica had: %v", err)
	}
	if err := again(func() error {
		_, err := e.Read(t.Context(), session.Crawl, 1, claimed[0].Head, 1)
		return err
	}); !errors.Is(err, cluster.ErrRolledBack) {
		t.Errorf("what it did not have: %v", err)
	}
	third := next(&claimed[0], 3, []byte("row"))
	if err := again(func() error { return e.Commit(t.Context(), session, third) }); !errors.Is(err,
		cluster.ErrRolledBack) {
		t.Errorf("the next batch: %v", err)
	}
}

// Sentinels name the server, and the replica that takes its place.
func TestSentinel(t *testing.T) {
	s := private(t)
	replica, err := s.Replica(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Remove() })
	sentinels, err := redistest.StartSentinels(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sentinels.Remove() })
	if err := sentinels.Watch("crawls", s.Port(), time.Second); err != nil {
		t.Fatal(err)
	}
	grant(t, s)
	grant(t, replica)
	e := open(t, asUser(sentinels.URL("crawls")))
	if _, err := Open(t.Context(), asUser(sentinels.URL("other"))); !errors.Is(err, cluster.ErrAway) ||
		!strings.Contains(err.Error(), `no server "other"`) {
		t.Errorf("a name that sentinels do not know: %v", err)
	}
	session := create(t, e)
	claimed := join(t, e, session, 1)
	if err := e.Commit(t.Context(), session, next(&claimed[0], 1, []byte("row"))); err != nil {
		t.Fatal(err)
	}
	do(t, s, "WAIT", 1, 0)
	if err := sentinels[0].Crash(); err != nil { // the first one in the address; two are enough
		t.Fatal(err)
	}
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	b := next(&claimed[0], 2, []byte("row"))
	for err = e.Commit(t.Context(), session, b); errors.Is(err, cluster.ErrAway) || errors.Is(err, cluster.ErrUnknown); {
		err = e.Commit(t.Context(), session, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := do(t, replica, "EXISTS", prefix(session.Crawl)+"log:1"); n != int64(1) {
		t.Error("the batch is not at the replica that took the server's place")
	}
}

// A server that was replaced and does not know it has no replicas any more. A write that waits for them finds that out,
// and the next one goes to the server that the sentinels name now.
func TestReplacedServer(t *testing.T) {
	s := private(t)
	replica, err := s.Replica(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Remove() })
	sentinels, err := redistest.StartSentinels(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sentinels.Remove() })
	watch := func(s *redistest.Server) {
		t.Helper()
		if err := sentinels.Watch("crawls", s.Port(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	watch(s)
	e := open(t, sentinels.URL("crawls")+"?wait_replicas=1")
	session := create(t, e)
	claimed := join(t, e, session, 1)
	commit(t, e, session, next(&claimed[0], 1, []byte("row")))
	do(t, sentinels[0], "SENTINEL", "REMOVE", "crawls")
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	watch(replica)
	b := next(&claimed[0], 2, []byte("row"))
	for i, at := range []*redistest.Server{s, replica} {
		if err := e.Commit(t.Context(), session, b); !errors.Is(err, cluster.ErrUnknown) {
			t.Fatalf("commit without replicas: %v", err)
		}
		if n := do(t, at, "XLEN", prefix(session.Crawl)+"log:1"); n != int64(2) {
			t.Errorf("attempt %d was not at the server that was expected", i+1)
		}
	}
}

// commit sends a batch until a server has answered it.
func commit(t *testing.T, e *Engine, s cluster.Session, b *cluster.Batch) {
	t.Helper()
	err := e.Commit(t.Context(), s, b)
	for errors.Is(err, cluster.ErrAway) || errors.Is(err, cluster.ErrUnknown) {
		err = e.Commit(t.Context(), s, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Crawls of a Redis Cluster are at different nodes. The address names one node; the others are found. When a master is
// killed, its replica takes its place, and the crawl goes on there. The master comes back as a replica.
func TestClusterFailover(t *testing.T) {
	c := startCluster(t, true, false)
	for _, s := range c.Nodes {
		grant(t, s)
	}
	address := asUser("redis+cluster://" + c.Nodes[1].Addr())
	e, waits := open(t, address), open(t, address+"?wait_replicas=1")
	if got := waits.Durability(); !strings.Contains(got, "a cluster of 3 nodes") || !strings.Contains(got, "1 of 1 replicas") {
		t.Errorf("durability: %s", got)
	}
	at := map[*redistest.Server]cluster.Session{}
	for len(at) < 3 {
		session := create(t, waits)
		if at[c.Owner(prefix(session.Crawl))] = session; len(at) > 3 {
			t.Fatal("crawls are at more nodes than there are masters")
		}
	}
	for master, session := range at {
		claimed := join(t, waits, session, 1)
		commit(t, waits, session, next(&claimed[0], 1, []byte("row")))
		if err := master.Crash(); err != nil {
			t.Fatal(err)
		}
		commit(t, e, session, next(&claimed[0], 2, []byte("row")))
		replica := c.Owner(prefix(session.Crawl))
		if replica == master || replica == nil {
			t.Fatal("no replica has taken the place of the master")
		}
		if err := master.Run(); err != nil {
			t.Fatal(err)
		}
		commit(t, waits, session, next(&claimed[0], 3, []byte("row"))) // when the master follows the replica
		rows, err := e.Read(t.Context(), session.Crawl, 1, cluster.Place{}, 1<<20)
		if err != nil || len(rows) != 3 {
			t.Errorf("%d rows: %v", len(rows), err)
		}
		// Until all nodes know of the change, some answer that the cluster is down, and a replica may not be one yet.
		if err := c.Agree(len(c.Nodes), 1); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := e.List(t.Context()); err != nil || len(list) < 3 {
		t.Errorf("%d crawls: %v", len(list), err)
	}
}

// While a slot moves to another node, key by key, its crawl waits. It goes on at the other node, with all that it had.
func TestSlotMoves(t *testing.T) {
	c := startCluster(t, false, false)
	e := open(t, c.URL())
	session := create(t, e)
	claimed := join(t, e, session, 1, 2)
	commit(t, e, session, next(&claimed[0], 1, []byte("row")))
	slot := slotOf(prefix(session.Crawl))
	from := c.Owner(prefix(session.Crawl))
	to := c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	fromID, toID := do(t, from, "CLUSTER", "MYID"), do(t, to, "CLUSTER", "MYID")
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	b := next(&claimed[1], 2, []byte("row"))
	waits := func(when string) {
		t.Helper()
		if err := e.Commit(t.Context(), session, b); !errors.Is(err, cluster.ErrAway) ||
			!strings.Contains(err.Error(), "is being moved to another node") {
			t.Errorf("commit %s: %v", when, err)
		}
		if _, err := e.Look(t.Context(), session.Crawl, cluster.Known{}); !errors.Is(err, cluster.ErrAway) {
			t.Errorf("look %s: %v", when, err)
		}
	}
	waits("before the first key has moved")
	keys := do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, 1000).([]any)
	if len(keys) < 5 {
		t.Fatalf("the crawl has %d keys", len(keys))
	}
	for i, key := range keys {
		do(t, from, "MIGRATE", "127.0.0.1", to.Port(), key, 0, 10_000)
		if i%2 == 0 {
			waits(fmt.Sprintf("when %d of %d keys have moved", i+1, len(keys)))
		}
	}
	do(t, to, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	if err := e.Commit(t.Context(), session, b); err != nil {
		t.Fatal(err)
	}
	if c.Owner(prefix(session.Crawl)) != to {
		t.Error("the crawl is not at the other node")
	}
	snap, err := e.Look(t.Context(), session.Crawl, cluster.Known{})
	if err != nil || snap.Parts[1].Head != claimed[0].Head || snap.Parts[2].Head != claimed[1].Head {
		t.Errorf("the crawl after the move: %v", err)
	}
}

// An address that means another kind of server is refused.
func TestWrongKind(t *testing.T) {
	c := startCluster(t, false, false)
	for address, says := range map[string]string{
		c.Nodes[0].URL(0): "redis+cluster://", "redis+cluster://" + shared.Addr(): "cluster support disabled",
	} {
		if _, err := Open(t.Context(), address); err == nil || errors.Is(err, cluster.ErrAway) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
	do(t, c.Nodes[2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if _, err := Open(t.Context(), c.URL()); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("a node that evicts keys: %v", err)
	}
	do(t, c.Nodes[2], "CONFIG", "SET", "maxmemory-policy", "noeviction", "appendonly", "no")
	if got := open(t, c.URL()).Durability(); !strings.Contains(got, "can lose the whole crawl") ||
		!strings.Contains(got, "a node without replica") {
		t.Errorf("durability with one node that writes nothing: %s", got)
	}
}

// With appendfsync always, a write waits for the disks of replicas if the server can do that, since version 7.2.
func TestWaitForDisks(t *testing.T) {
	s := private(t, "--appendfsync", "always")
	replica, err := s.Replica(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Remove() })
	e := open(t, s.URL(0)+"?wait_replicas=1")
	session := create(t, e)
	claimed := join(t, e, session, 1)
	commit(t, e, session, next(&claimed[0], 1, []byte("row")))
	used, other, says := "cmdstat_wait:", "cmdstat_waitaof:", "1 of 1 replicas must have a write before"
	if e.server.waitAOF {
		used, other, says = other, used, "1 of 1 replicas must have a write on their disks before"
	}
	stats := string(do(t, s, "INFO", "commandstats").([]byte))
	if !strings.Contains(stats, used) || strings.Contains(stats, other) {
		t.Errorf("%s is not used, or %s is: %s", used, other, stats)
	}
	if got := e.Durability(); !strings.Contains(got, says) {
		t.Errorf("durability: %s", got)
	}
	do(t, replica, "CONFIG", "SET", "appendonly", "no")
	err = e.Commit(t.Context(), session, next(&claimed[0], 2, []byte("row")))
	if onDisks := errors.Is(err, cluster.ErrUnknown) && strings.Contains(err.Error(), "on their disks"); onDisks !=
		e.server.waitAOF {
		t.Errorf("commit with a replica that writes nothing to its disk: %v", err)
	}
}

// Near maxmemory nothing is committed, beats go on, and the crawl goes on when there is room. A server that is full
// refuses a batch as a whole.
func TestFullMemory(t *testing.T) {
	s := private(t, "--maxmemory", "40mb")
	e := open(t, s.URL(0))
	session := create(t, e)
	claimed := join(t, e, session, 1, 2)
	body := make([]byte, 1<<20)
	number := uint64(0)
	commit := func() error {
		c := claimed[0]
		err := e.Commit(t.Context(), session, next(&c, number+1, body))
		if err == nil {
			claimed[0] = c
			number++
		}
		return err
	}
	beat := func() {
		t.Helper()
		if _, err := e.Beat(t.Context(), session, cluster.Known{}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for err == nil && number < 100 {
		beat()
		err = commit()
	}
	if !errors.Is(err, cluster.ErrFull) || !strings.Contains(err.Error(), "the crawl pauses until there is room") {
		t.Fatalf("after %d MB: %v", number, err)
	}
	// Buffers for the append-only file do not count for maxmemory, so Used may be more than that.
	m, err := e.Memory(t.Context(), session.Crawl)
	if err != nil || m.Most != 40<<20 || m.Crawl < number<<20 || m.Crawl > m.Used {
		t.Errorf("memory is %+v with %d MB committed: %v", m, number, err)
	}
	do(t, s, "CONFIG", "SET", "maxmemory", "80mb")
	beat()
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	// Full before the engine has measured it.
	do(t, s, "CONFIG", "SET", "maxmemory", "1mb")
	before, _ := e.Look(t.Context(), session.Crawl, cluster.Known{})
	if err := commit(); !errors.Is(err, cluster.ErrFull) || !strings.Contains(err.Error(), "OOM") ||
		!strings.Contains(err.Error(), pauses) {
		t.Errorf("commit to a full server: %v", err)
	}
	if _, err := e.Beat(t.Context(), session, cluster.Known{}); !errors.Is(err, cluster.ErrAway) {
		t.Errorf("a beat to a full server: %v", err)
	}
	after, err := e.Look(t.Context(), session.Crawl, cluster.Known{})
	if err != nil || after.Parts[1].Head != before.Parts[1].Head || after.Member(session.ID).Batch != number {
		t.Errorf("a part of the batch is there: %v", err)
	}
	if err := e.Delete(t.Context(), session.Crawl); err != nil {
		t.Errorf("delete on a full server: %v", err)
	}
	if n := do(t, s, "EXISTS", prefix(session.Crawl)+"crawl", prefix(session.Crawl)+"log:1"); n != int64(0) {
		t.Errorf("%v keys are left", n)
	}
}

// Consumed hand-overs leave nothing behind.
func TestHandoversAreTrimmed(t *testing.T) {
	e := open(t, shared.URL(database(t)))
	session := create(t, e)
	claimed := join(t, e, session, 1)
	for number := uint64(1); number <= 20; number += 2 {
		sent := &cluster.Batch{Number: number, Sent: []cluster.Sent{{To: 1, Body: make([]byte, 1000)}}}
		if err := e.Commit(t.Context(), session, sent); err != nil {
			t.Fatal(err)
		}
		list, err := e.Inbox(t.Context(), session, nil, 1<<20)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d hand-overs: %v", len(list), err)
		}
		received := next(&claimed[0], number+1, []byte("row"))
		received.Received = append(received.Received, frontier.Mark{Partition: 1, Session: list[0].From,
			Batch: list[0].Batch})
		if err := e.Commit(t.Context(), session, received); err != nil {
			t.Fatal(err)
		}
		keys, err := e.client.do(t.Context(), "", "KEYS", prefix(session.Crawl)+"in*")
		if err != nil || len(keys.([]any)) > 0 {
			t.Fatalf("keys of hand-overs: %q, %v", keys, err)
		}
	}
}

// TestSecrets looks for the password in errors.
func TestSecrets(t *testing.T) {
	const escaped = "s3cr%25t%2FWord"
	s := private(t, "--requirepass", "another")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"redis://user:" + escaped + "@127.0.0.1:1/0", "redis://user:" + escaped + "@127.0.0.1:port/0",
		"redis://user:" + escaped + "@127.0.0.1:1/name", "redis://user:" + escaped + "@127.0.0.1:1/0?x=" + escaped,
		"redis://user:" + escaped + "@db.example/0", "redis+cluster://user:" + escaped + "@127.0.0.1:1/0",
		"redis+cluster://user:" + escaped + "@127.0.0.1:1/1", "redis+other://user:" + escaped + "@127.0.0.1:1",
		"redis+sentinel://user:" + escaped + "@127.0.0.1:1,127.0.0.1:1/name", "redis://user:" + escaped + "@127.0.0.1:1,127.0.0.1:1",
		"redis://user@127.0.0.1:1",
		strings.Replace(s.URL(0), "://", "://:"+escaped+"@", 1), s.URL(0) + "?passfile=" + file + "x",
	} {
		_, err := Open(t.Context(), address)
		if err == nil {
			t.Errorf("%s: opened", address)
		} else if strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "Word") {
			t.Errorf("the password is in: %v", err)
		}
	}
	if _, err := Open(t.Context(), s.URL(0)); err == nil || errors.Is(err, cluster.ErrAway) ||
		!strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	open(t, s.URL(0)+"?passfile="+file)
	t.Setenv(PasswordVariable, "another")
	open(t, s.URL(0))
}

// grant makes a user with the rights that docs/cluster.md names, and no others.
func grant(t *testing.T, s *redistest.Server) {
	t.Helper()
	do(t, s, "ACL", "SETUSER", "mapwright", "on", ">change-me", "~mapwright:*", "+@all", "-@admin", "-@dangerous", "+info",
		"+script", "+cluster|slots")
}

// asUser puts the user of grant into an address.
func asUser(address string) string {
	return strings.Replace(address, "://", "://mapwright:change-me@", 1)
}

// TestRights uses a user with the rights that docs/cluster.md names.
func TestRights(t *testing.T) {
	s := private(t)
	grant(t, s)
	e := open(t, asUser(s.URL(0)))
	if got := e.Durability(); !strings.Contains(got, "appendfsync, which cannot be read") {
		t.Errorf("durability: %s", got)
	}
	session := create(t, e)
	claimed := join(t, e, session, 1)
	if err := e.Commit(t.Context(), session, next(&claimed[0], 1, []byte("row"))); err != nil {
		t.Error(err)
	}
	if _, err := e.Memory(t.Context(), session.Crawl); err != nil {
		t.Error(err)
	}
	if err := e.Delete(t.Context(), session.Crawl); err != nil {
		t.Error(err)
	}
}

// A server with TLS is used if its certificate is valid for its name.
func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	s := private(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	port := freePort(t)
	do(t, s, "CONFIG", "SET", "tls-port", port)
	open(t, fmt.Sprintf("rediss://127.0.0.1:%d?cafile=%s", port, cert))
	for name, address := range map[string]string{
		"unknown authority": fmt.Sprintf("rediss://127.0.0.1:%d", port),
		"another name":      fmt.Sprintf("rediss://localhost:%d?cafile=%s", port, cert),
	} {
		if _, err := Open(t.Context(), address); err == nil || errors.Is(err, cluster.ErrAway) ||
			!strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// certificate makes one for 127.0.0.1, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der},
		"key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}
