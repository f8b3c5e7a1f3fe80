// Package results tests what a crawl leaves: sitemap.jsonl, XML, CSV, reports, problems.
package results

import (
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
