package frontier

import (
	"fmt"
	"math"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

func TestAssignSpread(t *testing.T) {
	const domains = 100_000
	var perPartition [partitions]int
	for i := range domains {
		perPartition[weburl.Partition(fmt.Sprintf("shop-%d.example.com", i))]++
	}
	mean := float64(domains) / partitions
	for p, n := range perPartition {
		if math.Abs(float64(n)-mean) > 5*math.Sqrt(mean) {
			t.Errorf("partition %d has %d domains, want about %.0f", p, n, mean)
		}
	}
	for _, shards := range []int{1, 2, 3, 4, 8, 16} {
		perShard := make([]int, shards)
		for p, n := range perPartition {
			perShard[assign(uint8(p), shards)] += n
		}
		// A shard's partitions are binomial: their spread, not the domains', decides.
		mean, dev := 1/float64(shards), math.Sqrt(1/float64(shards)*(1-1/float64(shards))/partitions)
		for s, n := range perShard {
			if got := float64(n) / domains; math.Abs(got-mean) > 3.5*dev+0.001 {
				t.Errorf("shard %d of %d has %.3f of the domains, want %.3f", s, shards, got, mean)
			}
		}
	}
}

func TestAssignMovesOnlyToTheNewShard(t *testing.T) {
	for n := 1; n < 64; n++ {
		moved := 0
		for p := range partitions {
			was, is := assign(uint8(p), n), assign(uint8(p), n+1)
			if was == is {
				continue
			}
			moved++
			if is != n {
				t.Errorf("partition %d goes from shard %d to the old shard %d when shard %d is added", p, was, is, n)
			}
		}
		share := 1 / float64(n+1)
		dev := math.Sqrt(share * (1 - share) * partitions)
		if math.Abs(float64(moved)-share*partitions) > 3.5*dev {
			t.Errorf("%d of %d partitions move from %d to %d shards, want about %.0f", moved, partitions, n, n+1,
				share*partitions)
		}
	}
}

// TestAssignIsFixed pins some weights' winners: members of a cluster must agree,
// whatever version they run.
func TestAssignIsFixed(t *testing.T) {
	got := make([]int, 0, 16)
	for p := range 16 {
		got = append(got, assign(uint8(p), 4))
	}
	want := []int{2, 2, 0, 3, 2, 3, 0, 1, 3, 2, 2, 3, 1, 2, 2, 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("first owners of 4 shards: %v, want %v", got, want)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, shards := range []int{2, 64} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for p := range partitions {
					assign(uint8(p), shards)
				}
			}
		})
	}
}
