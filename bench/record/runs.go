package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// runPlan says what to run.
type runPlan struct {
	count   int
	bench   string
	growth  int
	recrawl int
	peers   bool
}

// record makes the runs and appends what they print to the raw file of today and this commit. The runs after one that
// failed are made all the same.
func record(root, dir string, plan runPlan, f facts) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, f.file())
	first := 1
	if old, err := os.ReadFile(name); err == nil {
		first = recording{name, string(old)}.runs() + 1
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	raw, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := raw.WriteString(f.lines()); err != nil {
		return errors.Join(err, raw.Close())
	}
	var failed error
	for n := first; n < first+plan.count; n++ {
		if _, err := fmt.Fprintf(raw, "run: %d\n", n); err != nil {
			return errors.Join(err, raw.Close())
		}
		if err := plan.run(root, io.MultiWriter(raw, os.Stdout)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("run %d: %w", n, err))
		}
	}
	return errors.Join(failed, raw.Close())
}

// run makes one run. It is a process of its own, so that runs do not share a heap.
func (p runPlan) run(root string, out io.Writer) error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", p.bench, "-benchtime", "1x", "-timeout", "0", "./bench")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, os.Stderr
	cmd.Env = append(os.Environ(), "MAPWRIGHT_BENCH_GROWTH="+strconv.Itoa(p.growth),
		"MAPWRIGHT_BENCH_RECRAWL="+strconv.Itoa(p.recrawl))
	if p.peers {
		cmd.Env = append(cmd.Env, "MAPWRIGHT_BENCH_PEERS=1")
	}
	return cmd.Run()
}
