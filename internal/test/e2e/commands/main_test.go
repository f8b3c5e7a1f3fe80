// Package commands tests the command line: settings, refusals, messages, the live view, and the commands of the
// documents.
package commands

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
