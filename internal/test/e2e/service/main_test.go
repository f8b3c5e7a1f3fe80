// Package service has tests that use the service as its users do: through the built e2e.Binary, its HTTP API and its
// commands.
//
// With the build tag service it also puts a real nginx before the server, and runs the commands of docs/service.md.
package service

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
