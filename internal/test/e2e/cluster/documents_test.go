//go:build cluster

package cluster

import (
	"fmt"
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
			kinds, address, env := []string{"sh cluster"}, "", []string(nil)
			switch {
			case isRedis():
				kinds, address = []string{"sh cluster", "sh redis"}, newDatabase(t).address
			case name == "cluster.md":
				var port int
				address, port = administer(t, all[name])
				kinds = append(kinds, "sh postgres")
				env = []string{"PGHOST=127.0.0.1", fmt.Sprint("PGPORT=", port), "PGUSER=postgres"}
			default:
				address = newDatabase(t).address
			}
			script := regexp.MustCompile(`(postgres|rediss?)://[^']*`).ReplaceAllLiteralString(all[name].Script(kinds...),
				address)
			if !strings.Contains(script, address) || !strings.Contains(script, "mapwright join") {
				t.Fatalf("the commands are\n%s", script)
			}
			web := e2e.Serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			e2e.RunScript(t, web.Addr(), script, env...)
		})
	}
}

// administer does what a document gives to psql, on a server of the test, and returns the address that the document
// then gives to the machines, with the port of this server.
func administer(t *testing.T, d *documents.Document) (address string, port int) {
	t.Helper()
	server, database := ownServer(t), "postgres"
	for _, b := range d.Blocks {
		if b.Kind != "sql" {
			continue
		}
		for _, line := range b.Lines {
			if name, isConnect := strings.CutPrefix(line, `\c `); isConnect {
				database = name
				continue
			}
			query(t, server.URL(database), line)
		}
	}
	port = proxyTo(t, server).Port()
	address = regexp.MustCompile(`postgres://[^']*`).FindString(d.Script("sh cluster"))
	return strings.Replace(address, "@127.0.0.1/", fmt.Sprintf("@127.0.0.1:%d/", port), 1), port
}
