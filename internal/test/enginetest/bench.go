package enginetest

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/internal/cluster"
)

// Benchmark measures an engine: commits, reading with the check of the chain, beats, and an empty inbox. Open returns an
// engine, and closes it when the benchmark ends.
func Benchmark(b *testing.B, open func(*testing.B) cluster.Engine) {
	for _, c := range []struct {
		name string
		run  func(*testing.B, *bench)
	}{{"Commit", benchCommit}, {"Read", benchRead}, {"Beat", benchBeat}, {"Inbox", benchInbox}} {
		b.Run(c.name, func(b *testing.B) { c.run(b, newBench(b, open(b))) })
	}
}

// A bench is a session on a crawl.
type bench struct {
	cluster.Engine
	session cluster.Session
}

func newBench(b *testing.B, e cluster.Engine) *bench {
	b.Helper()
	c := cluster.Crawl{ID: cluster.NewID(), Identity: "url=1"}
	c.Name = c.ID.String()
	s := cluster.Session{Crawl: c.ID, ID: cluster.NewID(), Machine: cluster.NewID(), Name: "machine"}
	if err := errors.Join(e.Create(b.Context(), c), e.Join(b.Context(), s)); err != nil {
		b.Fatal(err)
	}
	return &bench{e, s}
}

func (e *bench) claim(b *testing.B, parts ...uint8) []cluster.Claimed {
	b.Helper()
	claimed, err := e.Claim(b.Context(), e.session, parts)
	if err != nil || len(claimed) != len(parts) {
		b.Fatalf("claimed %v: %v", claimed, err)
	}
	return claimed
}

// nextRow makes the next row of a partition.
func nextRow(c *cluster.Claimed, body []byte) cluster.Write {
	w := cluster.Write{Partition: c.Partition, Epoch: c.Epoch, After: c.Head, Body: body}
	c.Head = w.Head()
	return w
}

// machinesShare is how many partitions one of three machines has.
const machinesShare = 85

// benchCommit commits batches of 300 KB for 85 partitions, one after the other.
func benchCommit(b *testing.B, e *bench) {
	claimed := e.claimShare(b)
	bodies := randomBodies(machinesShare, 300<<10/machinesShare)
	b.SetBytes(300 << 10)
	number := uint64(0)
	for b.Loop() {
		number++
		batch := &cluster.Batch{Number: number}
		for i := range claimed {
			batch.Writes = append(batch.Writes, nextRow(&claimed[i], bodies[i]))
		}
		if err := e.Commit(b.Context(), e.session, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
}

// benchRead reads 30 MB of one partition's log, in pages of 1 MB, and checks its
// chain.
func benchRead(b *testing.B, e *bench) {
	const rows, size = 1000, 30 << 10
	claimed := e.claim(b, 1)
	bodies := randomBodies(16, size)
	for n := range uint64(rows) {
		batch := &cluster.Batch{Number: n + 1, Writes: []cluster.Write{nextRow(&claimed[0], bodies[n%16])}}
		if err := e.Commit(b.Context(), e.session, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(rows * size)
	b.ResetTimer()
	for b.Loop() {
		var at cluster.Place
		for at != claimed[0].Head {
			page, err := e.Read(b.Context(), e.session.Crawl, 1, at, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			for i := range page {
				if !page[i].Follows(at) {
					b.Fatalf("row %d does not follow", page[i].Seq)
				}
				at = page[i].Place
			}
		}
	}
}

// benchBeat is a beat with its snapshot.
func benchBeat(b *testing.B, e *bench) {
	e.claimShare(b)
	for b.Loop() {
		if _, err := e.Beat(b.Context(), e.session, cluster.Known{Plan: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// benchInbox asks for hand-overs when there are none.
func benchInbox(b *testing.B, e *bench) {
	e.claimShare(b)
	for b.Loop() {
		if _, err := e.Inbox(b.Context(), e.session, nil, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func (e *bench) claimShare(b *testing.B) []cluster.Claimed {
	b.Helper()
	parts := make([]uint8, machinesShare)
	for i := range parts {
		parts[i] = uint8(3 * i)
	}
	return e.claim(b, parts...)
}

// randomBodies cannot be compressed, as bodies that are compressed already.
func randomBodies(n, size int) [][]byte {
	rng := rand.NewChaCha8([32]byte{1})
	list := make([][]byte, n)
	for i := range list {
		list[i] = make([]byte, size)
		_, _ = rng.Read(list[i])
	}
	return list
}
