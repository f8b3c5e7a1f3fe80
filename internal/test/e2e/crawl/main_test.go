// Package crawl tests what a crawl fetches: scope, limits, robots.txt, sitemaps, traps, and the safe profile.
package crawl

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
