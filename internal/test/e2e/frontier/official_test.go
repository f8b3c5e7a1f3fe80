//go:build urlfrontier

package frontier

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/test/documents"
	"github.com/mapwright/mapwright/internal/test/e2e"
)

const root = "../../../.."

// built is where scripts/need-urlfrontier.sh has built the official client and tests.
func built(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin/url-frontier", path))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("run scripts/need-urlfrontier.sh first: %v", err)
	}
	return path
}

// The official suite passes, all 7 tests of it.
func TestOfficialSuite(t *testing.T) {
	tests := built(t, "tests")
	s := start(t, filepath.Join(t.TempDir(), "frontier"))
	_, port, err := net.SplitHostPort(regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.Out()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), e2e.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-Durlfrontier.host=127.0.0.1", "-Durlfrontier.port="+port,
		"-Dmaven.test.skip=false", "-DskipTests=false", "test")
	cmd.Dir = tests
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n := 0
	passed := regexp.MustCompile(`Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0, Time`)
	for _, m := range passed.FindAllSubmatch(out, -1) {
		k, _ := strconv.Atoi(string(m[1]))
		n += k
	}
	if n != 7 {
		t.Errorf("%d tests ran and passed, want 7:\n%s", n, out)
	}
	s.Signal(syscall.SIGTERM)
	e2e.Succeeded(t, s.Wait())
}

// The commands of docs/urlfrontier.md work with the official client, every command of which is among them.
func TestOfficialClient(t *testing.T) {
	jar := built(t, "client/target/urlfrontier-client-2.6.jar")
	all, err := documents.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	d := all["urlfrontier.md"]
	help, err := exec.Command("java", "-jar", jar, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	script := d.Script("sh urlfrontier")
	commands := regexp.MustCompile(`(?m)^  ([A-Z]\w+) `).FindAllSubmatch(help, -1)
	if len(commands) < 17 {
		t.Errorf("the client has %d commands only:\n%s", len(commands), help)
	}
	for _, m := range commands {
		if !strings.Contains(script, "urlfrontier "+string(m[1])) {
			t.Errorf("docs/urlfrontier.md does not show %s", m[1])
		}
	}

	args := strings.Fields(strings.TrimPrefix(d.Script("sh frontier"), "set -euo pipefail\n"))
	dir := t.TempDir()
	s := e2e.Invocation{Args: args[1:], Dir: dir}.Start(t)
	s.Until("it listens on the port of the document",
		func() bool { return strings.Contains(s.Out(), "127.0.0.1:7071") })
	if err := os.Symlink(built(t, "."), filepath.Join(dir, "url-frontier")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-xc", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"3 URLs dumped for crawl DEFAULT", "http://example.com/a", "Number of queues: 2"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
	s.Signal(syscall.SIGINT)
	if got := s.Wait(); got.Code != 0 {
		t.Errorf("exit status %d", got.Code)
	}
}
