//go:build cluster

package postgres

import (
	"testing"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/test/enginetest"
)

func BenchmarkEngine(b *testing.B) {
	enginetest.Benchmark(b, func(b *testing.B) cluster.Engine { return open(b, database(b)) })
}
