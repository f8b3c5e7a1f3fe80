//go:build cluster

package cluster

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The commands of the documents about several machines work as they are written, with the address of a database of the
// test.
func TestClusterCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster.md", "many-hosts.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := newDatabase(t).address
			address := regexp.MustCompile(`(postgres|rediss)://[^']*`)
			script := address.ReplaceAllLiteralString(all[name].Script("sh cluster"), database)
			if !strings.Contains(script, database) || !strings.Contains(script, "mapwright join") {
				t.Fatalf("the commands are\n%s", script)
			}
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web.Addr(), script)
		})
	}
}
