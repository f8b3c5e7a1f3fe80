package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// ofServer are the documents whose commands need a server. The tests of the service run them.
var ofServer = []string{"service.md", "schedules.md", "webhooks.md", "hosts.md"}

// The commands of the documents work as they are written, in their order, in a directory with a file urls.txt.
func TestCommandsOfDocuments(t *testing.T) {
	t.Parallel()
	all, err := documents.Read(filepath.Join("..", "..", ".."))
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
			web := serve(t, testweb.Config{Seed: 7, Pages: 20, PageSize: 2000, Links: 6, HostName: "example.com"})
			runScript(t, web, strings.NewReplacer("shop.test", "example.com", "h0.test", "example.com").Replace(script))
		})
	}
	if ran < 3 {
		t.Errorf("only %d documents have commands", ran)
	}
}

// runScript runs the commands of a document in a new directory. The host example.com is that of the web, over http; the
// delays of the profiles are left out. A crawl that a limit ends has done what its command says.
func runScript(t *testing.T, web *testweb.Server, script string, env ...string) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "mapwright")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "urls.txt"), []byte("http://example.com/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	network := fmt.Sprintf("resolve: ['*:80:%s', '*:443:%s']\nmin_delay_ms: 0\nmax_delay_ms: 0\n", web.Addr(),
		closedPort(t))
	settings := filepath.Join(bin, "settings.yaml")
	if err := os.WriteFile(settings, []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	script = strings.ReplaceAll(script, "https://example.com", "http://example.com")
	script = `mapwright() { command mapwright "$@" || test $? -eq 3; }` + "\n" + script
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-xc", script)
	cmd.Dir = dir
	cmd.Env = append(bareEnv(t, dir), "PATH="+bin+":"+os.Getenv("PATH"), "MAPWRIGHT_CONFIG="+settings)
	cmd.Env = append(cmd.Env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
