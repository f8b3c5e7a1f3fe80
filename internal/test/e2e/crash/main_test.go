// Package crash tests what the program keeps when it is killed, stopped, or its files are damaged.
package crash

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
