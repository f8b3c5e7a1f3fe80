package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/overview"
)

// The help of join lists what it takes, and not what is set for all machines.
func TestHelpOfJoin(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"join", "--help"}, nil, stdio{strings.NewReader(""), &out, &out}); code != 0 {
		t.Fatalf("exit status %d: %s", code, &out)
	}
	for flag, want := range map[string]bool{"--log-level ": true, "--data-dir ": true, "--max-urls ": false,
		"--scope ": false, "--profile ": false, "--safe ": false, "--retry-crashed ": false} {
		if got := strings.Contains(out.String(), "      "+flag) ||
			strings.Contains(out.String(), "  -d, "+flag); got != want {
			t.Errorf("the help has %s: %v\n%s", flag, got, &out)
		}
	}
	if strings.Contains(out.String(), "max-urls") {
		t.Errorf("the help names a flag that join refuses:\n%s", &out)
	}
}

// A machine that waits for a crawl says for which, and which there are.
func TestWaitingText(t *testing.T) {
	for want, got := range map[string]string{
		"waiting for a crawl: 'mapwright crawl --cluster ADDRESS --start-url URL' makes one": waitingText("",
			nil),
		"waiting for a crawl a: 'mapwright crawl --cluster ADDRESS --name a --start-url URL' makes it": waitingText("a",
			nil),
		"waiting for a crawl a; the cluster has only b, c": waitingText("a",
			[]string{"b", "c"}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The name of a crawl can be given to other commands as it is printed.
func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "demo": true, "example.com-0a2c9885": true, "127.0.0.1:8080-1": true, "[::1]:80-1": true,
		"bücher.example_2": true, strings.Repeat("x", maxName): true,
		"-demo": false, "my crawl": false, "a\x1b[31m": false, "a\nb": false, "a'b": false, "a/b": false, "$a": false,
		strings.Repeat("x", maxName+1): false,
	} {
		if err := checkName(name); (err == nil) != want {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

// A crawl that has ended is worked on by a machine that has partitions, and not by one that was killed a moment ago.
func TestWorking(t *testing.T) {
	now, writes, killed := time.Now(), cluster.SessionID{1}, cluster.SessionID{2}
	s := &cluster.Snapshot{Now: now, Crawl: cluster.Crawl{State: cluster.Finished}, Members: []cluster.Member{
		{Session: writes, Name: "writes", Beat: now}, {Session: killed, Name: "killed", Beat: now.Add(-time.Second)},
		{Session: cluster.SessionID{3}, Name: "gone", Beat: now.Add(-time.Hour)},
	}}
	s.Parts[7].Owner = writes
	if got := working(s); !slices.Equal(got, []string{"writes"}) {
		t.Errorf("on a crawl that has ended: %v", got)
	}
	s.Crawl.State = cluster.Running
	if got := working(s); !slices.Equal(got, []string{"killed", "writes"}) {
		t.Errorf("on a crawl that runs: %v", got)
	}
}

// The status says of a machine that is silent whether others are there to take over.
func TestLostMachine(t *testing.T) {
	status := &overview.Status{Crawl: overview.Crawl{Name: "a", State: cluster.Running},
		Machines: []overview.Machine{{Name: "lost", Silent: 15}}}
	for _, want := range []string{"15.0 s ago: it was lost\n", "15.0 s ago: others take over its partitions\n"} {
		var out bytes.Buffer
		if err := printClusterStatus(stdio{out: &out}, status); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, want %q in\n%s", err, want, &out)
		}
		status.Machines = append(status.Machines, overview.Machine{Name: "works", Alive: true})
	}
}

// The status of a crawl that a limit has ended says how to go on.
func TestClusterResumeHint(t *testing.T) {
	for reason, want := range map[string]string{
		session.ReasonComplete: "",
		session.ReasonLimit:    "mapwright resume --cluster ADDRESS --name a --max-urls N (in all; 0 is no limit)",
		session.ReasonPerHost: "mapwright resume --cluster ADDRESS --name a --max-urls-per-host N (in all; 0 is no " +
			"limit)",
		session.ReasonDuration: "mapwright resume --cluster ADDRESS --name a --duration D (in all; 0 is no limit)",
	} {
		if got := clusterResumeHint("a", reason); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// Several machines do not visit pages again, so that they cannot have wider rules than before.
func TestClusterIsNotMadeWider(t *testing.T) {
	before := config.Defaults(config.Polite)
	before.MaxDepth, before.Exclude = 3, []string{"/a"}
	plan := datadir.NewPlan(before, nil)
	for name, c := range map[string]struct {
		edit func(*config.Settings)
		want string // in the refusal; empty if there is none
	}{
		"as before": {func(*config.Settings) {}, ""},
		"narrower":  {func(s *config.Settings) { s.MaxDepth, s.Exclude, s.MaxURLs = 2, []string{"/a", "/b"}, 10 }, ""},
		"deeper":    {func(s *config.Settings) { s.MaxDepth = -1 }, "too_deep"},
		"two wider": {func(s *config.Settings) { s.Scope, s.Exclude = "any", nil }, "out_of_scope, excluded"},
		"one of two": {func(s *config.Settings) { s.MaxDepth, s.Exclude = 1, []string{"/b"} },
			"(excluded in report.json)"},
	} {
		s := *before
		c.edit(&s)
		err := checkNotWider(plan, &s)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Mistakes about clusters are refused before anything is connected to. No message has a password.
func TestClusterFlags(t *testing.T) {
	const env = "MAPWRIGHT_CLUSTER=postgres://u:secret@127.0.0.1:1/db?connect_timeout=1"
	for _, c := range []struct {
		args string
		env  string
		code int
		says string
	}{
		{"status --cluster redis://u:secret@127.0.0.1:1/0", "", 1, "the engine cannot be reached"},
		{"export --redis-url redis://u:secret@127.0.0.1:1/0", "", 1, "the engine cannot be reached"},
		{"status", "MAPWRIGHT_REDIS_URL=redis://u:secret@127.0.0.1:1", 1, "the engine cannot be reached"},
		{"status --redis-url redis://u:secret@127.0.0.1:1/0 --redis-wait-replicas 2", "", 1, "cannot be reached"},
		{"status --redis-url redis://u:secret@127.0.0.1:1/0 --redis-wait-replicas two", "", 2, `"two" is not a number`},
		{"status --redis-wait-replicas 1", env, 2, "--redis-wait-replicas is for Redis"},
		{"join --redis-url=", "", 2, "--cluster is empty"},
		{"status --cluster redis://u:secret@db.example/0", "", 2, "in clear to db.example"},
		{"status --cluster redis+cluster://u:secret@127.0.0.1:1", "", 1, "the engine cannot be reached"},
		{"status --cluster redis+sentinel://u:secret@127.0.0.1:1,127.0.0.1:1/name", "", 1, "sentinel 127.0.0.1:1"},
		{"status --cluster redis+sentinel://u:secret@127.0.0.1:1", "", 2, "no name of a server"},
		{"status --cluster redis://u@127.0.0.1:1", "", 2, "names a user and no password"},
		{"status --cluster redis://u:secret@127.0.0.1:x", "", 2, "cannot be read"},
		{"status --cluster redis://u:secret@127.0.0.1:1/?wrong=1", "", 2, `has an option "wrong"`},
		{"status --cluster=", "", 2, "--cluster is empty"},
		{"wipe --name a", "", 2, "give --cluster too"},
		{"wipe --force", "", 2, "give --cluster too"},
		{"export dir --cluster postgres://u@127.0.0.1:1/a", "", 2, `give --name instead of "dir"`},
		{"status --cluster postgres://u:secret@127.0.0.1:port/db", "", 2, "cannot be read"},
		{"status --cluster postgres://u:secret@127.0.0.1:1/db", "", 1, "the engine cannot be reached"},
		{"status", env, 1, "the engine cannot be reached"},
		{"wipe --name a --data-dir dir", env, 1, "the engine cannot be reached"},
		{"join --max-urls 5", env, 2, "flag --max-urls cannot be given here"}, // before it waits for a crawl
		{"recrawl --cluster postgres://u:secret@127.0.0.1:1/db", "", 1, "the engine cannot be reached"},
		{"recrawl --name a", env, 1, "the engine cannot be reached"},
		{"recrawl --name a", "", 2, "give --cluster too"},
		{"recrawl --name a --max-age soon", env, 2, "flag --max-age"},
		{"recrawl --name a --print-config", env, 2, "--print-config shows the settings of a crawl of this machine"},
		{"recrawl dir", env, 2, "holds no crawl"},
		{"join --retry-crashed", env, 2, "flag --retry-crashed cannot be given here"},
		{"join --profile polite", env, 2, "flag --profile cannot be given here"},
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
