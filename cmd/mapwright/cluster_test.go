package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Mistakes about clusters are refused before anything is connected to. No message has a password.
func TestClusterFlags(t *testing.T) {
	const env = "MAPWRIGHT_CLUSTER=postgres://u:secret@127.0.0.1:1/db?connect_timeout=1"
	for _, c := range []struct {
		args string
		env  string
		code int
		says string
	}{
		{"status --cluster redis://u:secret@127.0.0.1/0", "", 2, "Redis is not supported yet"},
		{"export --redis-url redis://u:secret@127.0.0.1/0", "", 2, "Redis is not supported yet"},
		{"status --cluster=", "", 2, "--cluster is empty"},
		{"wipe --cluster postgres://u@127.0.0.1:1/a --redis-url redis://x", "", 2, "give one of them"},
		{"wipe --name a", "", 2, "give --cluster too"},
		{"wipe --force", "", 2, "give --cluster too"},
		{"export dir --cluster postgres://u@127.0.0.1:1/a", "", 2, `give --name instead of "dir"`},
		{"status --cluster postgres://u:secret@127.0.0.1:port/db", "", 2, "cannot be read"},
		{"status --cluster postgres://u:secret@127.0.0.1:1/db", "", 1, "the engine cannot be reached"},
		{"status", env, 1, "the engine cannot be reached"},
		{"wipe --name a --data-dir dir", env, 1, "the engine cannot be reached"},
		// A directory that is named is meant, also if the environment has a cluster.
		{"status dir", env, 2, "holds no crawl"},
		{"wipe --data-dir dir --yes", env, 2, "holds no crawl"},
		{"export --data-dir dir", env, 2, "holds no crawl"},
	} {
		var out, errs bytes.Buffer
		t.Chdir(t.TempDir())
		code := run(t.Context(), strings.Fields(c.args), []string{c.env}, stdio{strings.NewReader(""), &out, &errs})
		if code != c.code || !strings.Contains(errs.String(), c.says) || out.Len() > 0 {
			t.Errorf("%s: exit status %d, want %d and %q\n%s%s", c.args, code, c.code, c.says, &out, &errs)
		}
		if strings.Contains(errs.String(), "secret") {
			t.Errorf("%s: the password is in %s", c.args, &errs)
		}
		if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", c.args, left, err)
		}
	}
}
