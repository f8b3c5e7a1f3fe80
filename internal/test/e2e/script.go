package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RunScript runs the commands of a document in a new directory. The host example.com is at an address, over http; the
// delays of the profiles are left out. A crawl that a limit ends has done what its command says. The result is all that
// the commands printed, and their traces.
func RunScript(t *testing.T, addr, script string, env ...string) string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(Binary, filepath.Join(bin, "mapwright")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "urls.txt"), []byte("http://example.com/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	network := fmt.Sprintf("resolve: ['*:80:%s', '*:443:%s']\nmin_delay_ms: 0\nmax_delay_ms: 0\n", addr,
		ClosedPort(t))
	settings := filepath.Join(bin, "settings.yaml")
	if err := os.WriteFile(settings, []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	script = strings.ReplaceAll(script, "https://example.com", "http://example.com")
	script = `mapwright() { command mapwright "$@" || test $? -eq 3; }` + "\n" + script
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-xc", script)
	cmd.Dir = dir
	cmd.Env = append(BareEnv(t, dir), "PATH="+bin+":"+os.Getenv("PATH"), "MAPWRIGHT_CONFIG="+settings)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}
