// Package enginetest checks that a [cluster.Engine] keeps what its documentation
// promises. Every implementation calls [Run] in a test, and [Compare] with the engine
// in memory as its model.
package enginetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

// A Harness is an engine under test, and what happens to it.
type Harness struct {
	Engine cluster.Engine
	// Advance makes the engine's clock go forward, or all times that it has stored go
	// back.
	Advance func(d time.Duration)
	// Save copies all crawls. The returned function replaces them by the copy.
	Save func() (restore func())
	// Lose makes the next Commit fail with ErrUnknown, done or not.
	Lose func(done bool)
}

// Run runs all tests. Open returns an engine, which may hold crawls of other tests, and
// closes it when its test ends.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	for _, c := range []struct {
		name string
		test func(*checker)
	}{
		{"crawls are made, listed and deleted", testCatalog}, {"sessions join, beat and leave", testSessions},
		{"time is counted while a machine is there", testUsed},
		{"free partitions are claimed", testClaim}, {"expired partitions are claimed", testExpiry},
		{"an engine that was away causes no takeover", testAway},
		{"a batch is all or nothing", testFence}, {"rows are read in pages", testRead},
		{"a batch is sent again", testAmbiguous},
		{"a rollback is detected", testRollback}, {"hand-overs are received once", testHandover},
		{"a crawl is complete at one moment", testComplete},
		{"pages are granted within the limit", testLimit}, {"levels rise when nothing is below", testLevel},
		{"a generation counts anew", testAnew},
		{"tokens are held", testTokens},
		{"plan, state and scope", testChanges}, {"faulty batches are refused", testFaulty},
		{"random clients at once", testConcurrent},
		{"a crawl is deleted while sessions work", testDeleteWorking},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			k := &checker{T: t, Harness: h}
			k.crawl = cluster.Crawl{ID: cluster.NewID(), Seed: 1<<63 + 5, Identity: "url=1", Plan: []byte("plan"),
				MaxURLs: 10}
			k.crawl.Name = k.crawl.ID.String()
			c.test(k)
		})
	}
}

// checker makes calls to one engine for one crawl.
type checker struct {
	*testing.T
	*Harness
	crawl cluster.Crawl
}

// create makes the crawl.
func (k *checker) create(tokens ...string) {
	k.Helper()
	k.ok(k.Engine.Create(k.Context(), k.crawl, tokens...))
}

func (k *checker) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// fails expects an error.
func (k *checker) fails(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Fatalf("error is %v, want %v", err, want)
	}
}

func equal[T comparable](k *checker, what string, got, want T) {
	k.Helper()
	if got != want {
		k.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func (k *checker) look() *cluster.Snapshot {
	k.Helper()
	s, err := k.Engine.Look(k.Context(), k.crawl.ID, cluster.Known{})
	k.ok(err)
	return s
}

// log reads the log of a partition and checks its chain.
func (k *checker) log(p uint8) []cluster.Row {
	k.Helper()
	return k.logAfter(p, cluster.Place{}, 1<<20)
}

func (k *checker) logAfter(p uint8, after cluster.Place, limit int) (all []cluster.Row) {
	k.Helper()
	for {
		rows, err := k.Engine.Read(k.Context(), k.crawl.ID, p, after, limit)
		k.ok(err)
		if len(rows) == 0 {
			return all
		}
		for i := range rows {
			if !rows[i].Follows(after) {
				k.Fatalf("partition %d: row %d does not follow row %d", p, rows[i].Seq, after.Seq)
			}
			after = rows[i].Place
		}
		all = append(all, rows...)
	}
}

// A node is a session and what it knows.
type node struct {
	*checker
	session cluster.Session
	number  uint64 // of its last batch
	epochs  map[uint8]uint64
	heads   map[uint8]cluster.Place
	granted map[uint8]uint64
}

// join makes a session that has joined the crawl.
func (k *checker) join() *node {
	k.Helper()
	n := k.node()
	k.ok(k.Engine.Join(k.Context(), n.session))
	return n
}

// expireBut makes all sessions expire but one, which has beaten for a whole lease then. Half a lease is between any two
// of its beats, because calls take seconds on a busy machine.
func (k *checker) expireBut(n *node) {
	k.Helper()
	k.Advance(cluster.Lease / 2)
	n.beat()
	k.Advance(cluster.Lease/2 + time.Second)
}

// node makes a session that has not joined yet.
func (k *checker) node() *node {
	return &node{checker: k, epochs: map[uint8]uint64{}, heads: map[uint8]cluster.Place{}, granted: map[uint8]uint64{},
		session: cluster.Session{Crawl: k.crawl.ID, ID: cluster.NewID(), Machine: cluster.NewID(), Name: "machine"}}
}

func (n *node) beat() *cluster.Snapshot {
	n.Helper()
	s, err := n.Engine.Beat(n.Context(), n.session, cluster.Known{})
	n.ok(err)
	return s
}

// claim claims partitions and expects to get them all.
func (n *node) claim(parts ...uint8) []cluster.Claimed {
	n.Helper()
	got := n.tryClaim(parts...)
	if len(got) != len(parts) {
		n.Fatalf("claimed %v of %v", got, parts)
	}
	return got
}

func (n *node) tryClaim(parts ...uint8) []cluster.Claimed {
	n.Helper()
	got, err := n.Engine.Claim(n.Context(), n.session, parts)
	n.ok(err)
	n.learn(got)
	return got
}

func (n *node) learn(got []cluster.Claimed) {
	for _, c := range got {
		n.epochs[c.Partition], n.heads[c.Partition], n.granted[c.Partition] = c.Epoch, c.Head, c.Granted
	}
}

// batch makes the next batch, with a row for each partition.
func (n *node) batch(parts ...uint8) *cluster.Batch {
	b := &cluster.Batch{Number: n.number + 1}
	for _, p := range parts {
		b.Writes = append(b.Writes, n.write(p, fmt.Appendf(nil, "row %d of batch %d of %v", p, b.Number, n.session.ID)))
	}
	return b
}

func (n *node) write(p uint8, body []byte) cluster.Write {
	return cluster.Write{Partition: p, Epoch: n.epochs[p], After: n.heads[p], Granted: n.granted[p], Body: body,
		Status: cluster.PartStatus{Idle: true, Least: cluster.NoDepth}}
}

// tryCommit commits, and takes note if that succeeds.
func (n *node) tryCommit(b *cluster.Batch) error {
	err := n.Engine.Commit(n.Context(), n.session, b)
	if err == nil {
		n.committed(b)
	}
	return err
}

func (n *node) committed(b *cluster.Batch) {
	n.number = b.Number
	for i := range b.Writes {
		n.heads[b.Writes[i].Partition] = b.Writes[i].Head()
	}
}

func (n *node) commit(b *cluster.Batch) {
	n.Helper()
	n.ok(n.tryCommit(b))
}

func (n *node) change(c cluster.Change) bool {
	n.Helper()
	done, err := n.Engine.Change(n.Context(), n.session, c)
	n.ok(err)
	n.changed(c, done)
	return done
}

// changed takes note of grants.
func (n *node) changed(c cluster.Change, done bool) {
	if s, ok := c.(cluster.SetState); ok && done && s.Anew {
		clear(n.granted)
	}
	if g, ok := c.(cluster.Grant); ok && done {
		n.granted[g.Partition] = g.To
	}
}

func (n *node) inbox(after ...frontier.Mark) []cluster.Handover {
	n.Helper()
	list, err := n.Engine.Inbox(n.Context(), n.session, after, 1<<20)
	n.ok(err)
	return list
}

// over expects that the session has ended.
func (n *node) over(want error) {
	n.Helper()
	ctx := n.Context()
	_, err := n.Engine.Beat(ctx, n.session, cluster.Known{})
	n.fails(err, want)
	_, err = n.Engine.Claim(ctx, n.session, []uint8{200})
	n.fails(err, want)
	_, err = n.Engine.Change(ctx, n.session, cluster.TakeToken{Name: "none"})
	n.fails(err, want)
	n.fails(n.Engine.Commit(ctx, n.session, &cluster.Batch{Number: n.number + 1}), want)
}

// number is a body that holds a number.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func bodies(list []cluster.Handover) (all []string) {
	for i := range list {
		all = append(all, string(list[i].Body))
	}
	return all
}

func sameStrings(k *checker, what string, got []string, want ...string) {
	k.Helper()
	if !slices.Equal(got, want) {
		k.Fatalf("%s: %q, want %q", what, got, want)
	}
}
