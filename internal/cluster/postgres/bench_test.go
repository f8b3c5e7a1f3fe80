//go:build cluster

package postgres

import (
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/internal/cluster"
)

// machinesShare is how many partitions one of three machines has.
const machinesShare = 85

// BenchmarkCommit commits batches of 300 KB for 85 partitions, one after the other.
func BenchmarkCommit(b *testing.B) {
	e := open(b, database(b))
	s := create(b, e)
	claimed := claimShare(b, e, s)
	bodies := randomBodies(machinesShare, 300<<10/machinesShare)
	b.SetBytes(300 << 10)
	number := uint64(0)
	for b.Loop() {
		number++
		batch := &cluster.Batch{Number: number}
		for i := range claimed {
			batch.Writes = append(batch.Writes, nextRow(&claimed[i], bodies[i]))
		}
		if err := e.Commit(b.Context(), s, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
}

// BenchmarkRead reads 30 MB of one partition's log, in pages of 1 MB, and checks its
// chain.
func BenchmarkRead(b *testing.B) {
	const rows, size = 1000, 30 << 10
	e := open(b, database(b))
	s := create(b, e)
	claimed := join(b, e, s, 1)
	bodies := randomBodies(16, size)
	for n := range uint64(rows) {
		batch := &cluster.Batch{Number: n + 1, Writes: []cluster.Write{nextRow(&claimed[0], bodies[n%16])}}
		if err := e.Commit(b.Context(), s, batch); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(rows * size)
	b.ResetTimer()
	for b.Loop() {
		var at cluster.Place
		for at != claimed[0].Head {
			page, err := e.Read(b.Context(), s.Crawl, 1, at, 1<<20)
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

// BenchmarkBeat is a beat with its snapshot.
func BenchmarkBeat(b *testing.B) {
	e := open(b, database(b))
	s := create(b, e)
	claimShare(b, e, s)
	for b.Loop() {
		if _, err := e.Beat(b.Context(), s, cluster.Known{Plan: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInbox asks for hand-overs when there are none.
func BenchmarkInbox(b *testing.B) {
	e := open(b, database(b))
	s := create(b, e)
	claimShare(b, e, s)
	for b.Loop() {
		if _, err := e.Inbox(b.Context(), s, nil, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func claimShare(b *testing.B, e *Engine, s cluster.Session) []cluster.Claimed {
	b.Helper()
	parts := make([]uint8, machinesShare)
	for i := range parts {
		parts[i] = uint8(3 * i)
	}
	return join(b, e, s, parts...)
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
