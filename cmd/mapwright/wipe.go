package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/state"
)

func newWipe(io stdio) *cobra.Command {
	var (
		dir string
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "wipe",
		Short: "Delete a crawl: the files that Mapwright made, and nothing else",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return wipe(io, crawl.Dir(dir), yes)
		},
	}
	addDataDir(cmd, &dir)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func wipe(io stdio, dir crawl.Dir, yes bool) error {
	made, foreign, err := dir.Made()
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(made) == 0) {
		return refusal(fmt.Errorf("data directory %s %w", dir, crawl.ErrNoCrawl))
	}
	if err != nil {
		return refusal(err)
	}
	if err := notInUse(dir); err != nil {
		return refusal(err)
	}
	if !yes {
		fmt.Fprintf(io.out, "Delete %s in %s? [y/N] ", strings.Join(made, ", "), dir)
		answer, err := bufio.NewReader(io.in).ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			if err != nil && a == "" {
				fmt.Fprintln(io.out)
			}
			return &exitError{exitFailed, errors.New("nothing was deleted (--yes deletes without asking)")}
		}
	}
	// The state goes last: while it is there, the directory is known for a crawl's.
	for _, name := range append(made, filepath.Base(dir.State())) {
		if name == filepath.Base(dir.State()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(string(dir), name)); err != nil {
			return &exitError{exitFailed, err}
		}
	}
	if err := os.RemoveAll(dir.State()); err != nil {
		return &exitError{exitFailed, err}
	}
	if len(foreign) > 0 {
		fmt.Fprintf(io.out, "deleted the crawl; left what Mapwright did not make: %s\n", strings.Join(foreign, ", "))
		return nil
	}
	if err := os.Remove(string(dir)); err != nil {
		return &exitError{exitFailed, err}
	}
	fmt.Fprintln(io.out, "deleted the crawl and its directory")
	return nil
}

// notInUse makes sure that no process has the crawl open.
func notInUse(dir crawl.Dir) error {
	has, err := dir.Holds()
	if err != nil || !has {
		return err
	}
	s, err := state.Open(dir.State(), state.Options{Mode: state.ExistingOnly})
	var locked *state.LockedError
	if errors.As(err, &locked) {
		return err
	}
	if err != nil {
		return nil // broken, but nobody's: wiping is what is left to do
	}
	return s.Close()
}
