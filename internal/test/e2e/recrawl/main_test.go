// Package recrawl tests later visits: recrawl, what has changed, and kills meanwhile.
package recrawl

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
