//go:build service

package story

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/testweb"
)

// The commands of docs/service.md work, one after the other.
func TestCommandsOfTheDocument(t *testing.T) {
	text := string(must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "service.md")))(t))
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(text, -1)
	if len(blocks) < 8 {
		t.Fatalf("found only %d blocks of commands", len(blocks))
	}
	for _, block := range blocks {
		script.WriteString(block[1])
	}
	w := web(t, testweb.Config{Seed: 5, Pages: 20, PageSize: 2000, Links: 6, ExplicitPort: true, HostName: "127.0.0.1"})
	dir := t.TempDir()
	settings := filepath.Join(dir, "settings.yaml") // the web of the test is on this machine
	if err := os.WriteFile(settings, []byte("allow_private: true\nprofile: own-site\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, filepath.Join(dir, "crawls"), "--config", settings)
	commands := strings.NewReplacer("http://127.0.0.1:8080", s.url, "https://example.com/", w.StartURLs()[0]).Replace(script.String())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-xc", commands)
	cmd.Dir, cmd.Env = dir, environment(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
