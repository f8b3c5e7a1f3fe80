//go:build cluster

package cluster

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
