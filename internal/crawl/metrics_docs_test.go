package crawl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The metrics of docs/live-view.md are those of the program.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "live-view.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(text), "\n### The ten controls\n")
	if !found {
		t.Fatal("docs/live-view.md has no tables of metrics")
	}
	there := map[string]bool{}
	watched(t, testweb.Config{}, nil, func(_ *monitor.Monitor, m *metrics.Metrics) {
		families, err := m.Registry().Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			if name, ours := strings.CutPrefix(f.GetName(), "mapwright_"); ours {
				there[name] = true
			}
		}
	})
	documented := map[string]bool{}
	for row := range strings.Lines(tables) {
		cells := strings.Split(row, "|")
		if len(cells) > 2 && !strings.Contains(cells[1], "`") {
			cells = cells[2:] // of the table of controls, which names them in the other columns
		} else if len(cells) > 2 {
			cells = cells[1:2]
		}
		for _, name := range regexp.MustCompile("`([a-z][a-z0-9_]*)[`{]").FindAllStringSubmatch(strings.Join(cells, "|"), -1) {
			documented[name[1]] = true
		}
	}
	for name := range there {
		if !documented[name] {
			t.Errorf("docs/live-view.md does not name mapwright_%s", name)
		}
	}
	for name := range documented {
		if !there[name] && name != "mapwright_" {
			t.Errorf("docs/live-view.md names %s, which is no metric", name)
		}
	}
}
