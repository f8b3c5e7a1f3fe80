//go:build cluster

package redis

import (
	"testing"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/enginetest"
)

// BenchmarkEngine measures a server that writes to the disk once a second, and one that does so before each answer.
func BenchmarkEngine(b *testing.B) {
	for _, fsync := range []string{"everysec", "always"} {
		b.Run(fsync, func(b *testing.B) {
			address := private(b, "--appendfsync", fsync).URL(0)
			enginetest.Benchmark(b, func(b *testing.B) cluster.Engine { return open(b, address) })
		})
	}
}
