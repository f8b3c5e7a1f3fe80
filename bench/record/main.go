package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("record", flag.ExitOnError)
	plan := runPlan{}
	flags.IntVar(&plan.count, "count", 3, "how many runs to make")
	flags.StringVar(&plan.bench, "bench", "Crawl|Growth|Recrawl", "which benchmarks, as in go test -bench")
	flags.IntVar(&plan.growth, "growth", 3_000_000, "the largest size of the growth benchmark, in `URLs`")
	flags.IntVar(&plan.recrawl, "recrawl", 1_000_000, "the size of the recrawl benchmark, in `pages`")
	flags.BoolVar(&plan.peers, "peers", true, "run the peers too")
	out := flags.String("out", "", "the `folder` of the results (bench/results of the module)")
	render := flags.Bool("render", false, "make the page from what is recorded, and run nothing")
	last := flags.Bool("last", false, "print the name of the newest raw file with the scenarios, and do nothing else")
	_ = flags.Parse(args)

	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if *out == "" {
		*out = filepath.Join(root, "bench", "results")
	}
	if *last {
		return printLast(*out)
	}
	var failed error
	if !*render {
		facts, err := readFacts(root, time.Now())
		if err != nil {
			return err
		}
		// A run that failed is recorded like any other, and shown.
		failed = record(root, *out, plan, facts)
	}
	return errors.Join(failed, writePage(*out))
}

// moduleRoot is the folder of the module's go.mod, at or above the present one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("there is no go.mod here or above")
		}
		dir = up
	}
}

func printLast(dir string) error {
	all, err := readAll(dir)
	if err != nil {
		return err
	}
	whole := newestWhole(all)
	if whole < 0 {
		return fmt.Errorf("no run of the scenarios is recorded in %s: %w", dir, fs.ErrNotExist)
	}
	fmt.Println(all[whole].file)
	return nil
}

// writePage makes RESULTS.md.
func writePage(dir string) error {
	all, err := readAll(dir)
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(dir, "changes.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := page(all, string(changes))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(text), 0o644)
}
