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

func newWipe(environ []string, io stdio) *cobra.Command {
	var (
		dir *dataDir
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "wipe",
		Short: "Delete a crawl: the files that Mapwright made, and nothing else",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			dir, err := dir.existing(nil)
			if err != nil {
				return err
			}
			return wipe(io, dir, yes)
		},
	}
	dir = addDataDir(cmd, environ)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func wipe(io stdio, dir crawl.Dir, yes bool) error {
	made, foreign, err := dir.Made()
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(made) == 0) {
		return refusal(fmt.Errorf("data directory %s %w: nothing was deleted", dir, crawl.ErrNoCrawl))
	}
	if err != nil {
		return refusal(err)
	}
	has, err := dir.Holds()
	if err != nil {
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
	// The state goes first, under its lock: a crawl that begins meanwhile either has it, and nothing is deleted, or finds it gone.
	if has {
		if err := state.Wipe(dir.State()); err != nil {
			return unusable(dir, err)
		}
	}
	for _, name := range made {
		if err := os.RemoveAll(filepath.Join(string(dir), name)); err != nil {
			return &exitError{exitFailed, err}
		}
	}
	if len(foreign) > 0 {
		fmt.Fprintf(io.out, "Deleted the crawl; left what Mapwright did not make: %s\n", strings.Join(foreign, ", "))
		return nil
	}
	if err := os.Remove(string(dir)); err != nil {
		return &exitError{exitFailed, err}
	}
	fmt.Fprintln(io.out, "Deleted the crawl and its directory.")
	return nil
}
