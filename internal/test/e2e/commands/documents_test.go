package commands

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// ofServer are the documents whose commands need a server. The tests of the service run them.
var ofServer = []string{"service.md", "schedules.md", "webhooks.md", "hosts.md"}

// The commands of the documents work as they are written, in their order, in a directory with a file urls.txt.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for name, d := range all {
		script := d.Script("sh", "console")
		if script == "" || slices.Contains(ofServer, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web, strings.NewReplacer("shop.test", "example.com", "h0.test",
				"example.com").Replace(script))
		})
	}
	if ran < 3 {
		t.Errorf("only %d documents have commands", ran)
	}
}
