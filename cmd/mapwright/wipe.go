package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/web/warc"
	"github.com/mapwright/mapwright/state"
)

func newWipe(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "wipe [directory]",
		Short: "Delete a crawl: the files that Mapwright made, and nothing else",
		Long: "Delete a crawl: the files that Mapwright made in a data directory, and nothing else. With --cluster, " +
			"delete a crawl of several machines from their " +
			"database; the data directories of the machines stay.",
		Args: oneDirectory,
	})
	c.addDataDir()
	c.addCluster()
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	force := c.Flags().Bool("force", false, "delete a crawl of several machines although some work on it")
	return c.does(func(args []string) error {
		address, err := c.cluster(args)
		if err != nil {
			return err
		}
		if address != "" {
			return c.atCrawl(address, func(e cluster.Engine, snap *cluster.Snapshot) error {
				return c.wipeCluster(e, snap, *yes, *force)
			})
		}
		if *force {
			return usage("--force is for crawls of several machines: give --cluster too")
		}
		dir, err := c.existing(args)
		if err != nil {
			return err
		}
		return wipe(c.stdio, dir, *yes)
	})
}

func wipe(io stdio, dir datadir.Dir, yes bool) error {
	made, foreign, err := dir.Made()
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(made) == 0) {
		return refusal(fmt.Errorf("data directory %s %w: nothing was deleted", dir, datadir.ErrNoCrawl))
	}
	if err != nil {
		return refusal(err)
	}
	if info, err := os.Lstat(dir.State()); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return refusal(fmt.Errorf("%s is a link, which wipe does not follow: nothing was deleted; delete the link "+
			"and what it points to, then run '%s' again", dir.State(), dir.Command("wipe")))
	}
	hasState := slices.Contains(made, filepath.Base(dir.State()))
	if hasState {
		if _, err := dir.Holds(); err != nil {
			if _, busy := errors.AsType[*datadir.BusyError](err); busy {
				return refusal(err)
			}
		}
	}
	if !yes {
		if len(foreign) > 0 {
			fmt.Fprintf(io.out, "These stay in %s, because Mapwright did not write them: %s\n", dir,
				page.EscapeControls(strings.Join(foreign, ", ")))
		}
		fmt.Fprintf(io.out, "Delete %s in %s? [y/N] ", strings.Join(made, ", "), dir)
		if err := confirm(io); err != nil {
			return err
		}
	}
	foreign, err = remove(dir, made, foreign, hasState)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		fmt.Fprintf(io.out, "Deleted the crawl; left what Mapwright did not make: %s\n",
			page.EscapeControls(strings.Join(foreign, ", ")))
		return nil
	}
	if info, err := os.Lstat(string(dir)); err == nil && !info.IsDir() {
		fmt.Fprintf(io.out, "Deleted the crawl; left %s, which is a link to an empty directory now.\n", dir)
		return nil
	}
	// The directory may be the current one, or a mount point.
	if err := os.Remove(string(dir)); err != nil {
		fmt.Fprintf(io.out, "Deleted the crawl; left its directory %s, which is empty now.\n", dir)
		return nil
	}
	fmt.Fprintln(io.out, "Deleted the crawl and its directory.")
	return nil
}

// remove deletes the files of a crawl and returns what is left. The state goes first, under its lock: a crawl that
// begins meanwhile either has it, and nothing is deleted, or finds it gone. The record of files goes last, so that an
// interrupted wipe can be repeated.
func remove(dir datadir.Dir, made, foreign []string, hasState bool) ([]string, error) {
	if hasState {
		if err := state.Wipe(dir.State()); err != nil && !errors.Is(err, state.ErrNotExist) {
			return nil, unusable(dir, err)
		}
	}
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	defer root.Close()
	made = slices.DeleteFunc(made, func(name string) bool { return name == datadir.RecordName })
	for _, name := range append(made, datadir.RecordName) {
		if name == filepath.Base(dir.Archive()) {
			if err := removeArchive(root, dir.Archive()); err != nil {
				return nil, &exitError{exitFailed, err}
			}
		}
		if name == filepath.Base(dir.State()) || name == filepath.Base(dir.Archive()) {
			entries, err := os.ReadDir(filepath.Join(string(dir), name))
			if err == nil && len(entries) > 0 {
				foreign = append(foreign, name+string(filepath.Separator)+entries[0].Name())
				continue
			}
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, &exitError{exitFailed, err}
		}
	}
	return foreign, nil
}

// removeArchive deletes the WARC files of a crawl, and leaves what else is in their folder.
func removeArchive(root *os.Root, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if warc.IsName(e.Name()) && e.Type().IsRegular() {
			if err := root.Remove(filepath.Join(filepath.Base(folder), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
