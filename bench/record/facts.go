package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/bench"
)

// facts are what figures depend on beside the code. The CPU's model is printed by go test itself. Nothing here names a
// machine.
type facts struct {
	date   time.Time
	commit string // short; with -dirty when the tree has changes that are not committed
	goVer  string
	cores  int
	memory string // "" where it is not known
	smoke  bool   // the scenarios were tiny, as MAPWRIGHT_BENCH=smoke makes them
}

func readFacts(root string, now time.Time) (facts, error) {
	f := facts{date: now.UTC().Truncate(time.Second), goVer: runtime.Version(), cores: runtime.NumCPU(),
		memory: memory(), smoke: bench.Smoke()}
	commit, err := git(root, "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return f, err
	}
	// Results are no part of what was measured.
	changes, err := git(root, "status", "--porcelain", "--", ".", ":!bench/results")
	if err != nil {
		return f, err
	}
	if f.commit = commit; changes != "" {
		f.commit += "-dirty"
	}
	return f, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// memory is how much the machine has.
func memory() string {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return ""
			}
			return fmt.Sprintf("%.0f GB", float64(kb)/(1<<20))
		}
	}
	return ""
}

// file is the name of the raw file for these facts.
func (f facts) file() string { return f.date.Format("2006-01-02") + "-" + f.commit + ".txt" }

// lines are the facts in Go's benchmark format, with the directions that benchstat cannot know.
func (f facts) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "date: %s\ncommit: %s\ngo: %s\ncores: %d\n", f.date.Format(time.RFC3339), f.commit, f.goVer,
		f.cores)
	if f.memory != "" {
		fmt.Fprintf(&b, "memory: %s\n", f.memory)
	}
	if f.smoke {
		b.WriteString("smoke: yes\n")
	}
	for _, unit := range []string{"pages/s", "urls/s", "first-tenth/s", "last-tenth/s", "last/first"} {
		fmt.Fprintf(&b, "Unit %s better=higher\n", unit)
	}
	return b.String()
}
