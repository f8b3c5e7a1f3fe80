//go:build service

package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// The commands of the documents about the service work as they are written, one after the other. Those of other
// documents than service.md use the variables of its beginning.
func TestCommandsOfDocuments(t *testing.T) {
	all, err := documents.Read(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	begin := ""
	for _, b := range all["service.md"].Blocks {
		if b.Kind == "sh" {
			begin = b.Commands()
			break
		}
	}
	started := regexp.MustCompile(`^set -euo pipefail\nmapwright serve --data-dir \./crawls(.*)\n$`)
	for name, script := range map[string]string{
		"service.md":   all["service.md"].Script("sh"),
		"schedules.md": begin + all["schedules.md"].Script("sh"),
		"webhooks.md":  begin + all["webhooks.md"].Script("sh"),
		"hosts.md":     begin + all["hosts.md"].Script("sh"),
		"README.md":    all["README.md"].Script("sh service"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := e2e.Serve(t, testweb.Config{Seed: 5, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			dir := t.TempDir()
			settings := filepath.Join(dir, "settings.yaml")
			// the web of the test is on this machine
			network := fmt.Sprintf("resolve: ['*:80:%s']\nprofile: own-site\n", w.Addr())
			if err := os.WriteFile(settings, []byte(network), 0o600); err != nil {
				t.Fatal(err)
			}
			page := all[name]
			if page.Script("sh server") == "" {
				page = all["service.md"]
			}
			line := started.FindStringSubmatch(page.Script("sh server"))
			if line == nil {
				t.Fatalf("the server is started by\n%s", page.Script("sh server"))
			}
			s := startServer(t, filepath.Join(dir, "crawls"), append(strings.Fields(line[1]), "--config", settings)...)
			commands := strings.NewReplacer("http://127.0.0.1:8080", s.url, "https://example.com/",
				"http://example.com/").Replace(script)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-xeuc", commands)
			cmd.Dir, cmd.Env = dir, environment(t, "MAPWRIGHT_SERVER="+s.url)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
