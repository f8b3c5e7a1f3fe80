// Package frontier tests 'mapwright frontier' as clients of the URLFrontier API see it.
package frontier

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
