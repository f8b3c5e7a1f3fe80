package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/state"
)

// addDataDir gives a command the flag for where it finds its crawl: --data-dir, else the environment, else a
// configuration file, else ./data.
func (c *command) addDataDir() {
	c.Flags().StringVarP(&c.dataDir, config.DataDirName, "d", "./data", "`directory` of the crawl")
	if err := c.MarkFlagDirname(config.DataDirName); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// directory is the directory by the flag, the environment or the configuration file.
func (c *command) directory() (datadir.Dir, error) {
	name := c.dataDir
	if texts := c.outside(config.DataDirName); len(texts) > 0 && !c.Flags().Changed(config.DataDirName) {
		name = texts[len(texts)-1]
	}
	if name == "" { // such as a variable of a script that is not set: it must not mean some directory
		return "", usage("--data-dir is empty")
	}
	return datadir.Dir(name), nil
}

// existing is the directory of a command that works on a crawl that exists. It may be an argument too. If the
// configuration file cannot be read, the directory that it may name is not known, so the command is refused.
func (c *command) existing(args []string) (datadir.Dir, error) {
	switch {
	case len(args) == 0 && c.sources().fileErr != nil:
		_, err := c.load()
		return "", err
	case len(args) == 0:
		return c.directory()
	case c.Flags().Changed(config.DataDirName):
		return "", usage("the directory is given twice, as %s and as --data-dir %s", args[0], c.dataDir)
	case args[0] == "":
		return "", usage("the directory is empty")
	}
	return datadir.Dir(args[0]), nil
}

// refusal is the exit status of what could not begin.
func refusal(err error) error { return &exitError{exitUsage, err} }

// openStored opens the state of a crawl that does not run, and prints what had to be repaired. asked says why no
// running crawl answered; it becomes part of the error if another process holds the lock. With checkAll it looks for
// damage in all pages before it changes the state; callers that read every page set it.
func (c *command) openStored(dir datadir.Dir, checkAll bool, asked error) (*state.Store, error) {
	s, err := state.Open(dir.State(), state.Options{Mode: state.ReadOnly, CheckValues: checkAll})
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		// The process is starting or ending, or it is another export, or its control socket cannot be used.
		return nil, refusal(fmt.Errorf("data directory %s is in use by process %d, which cannot be asked (%w): try "+
			"again, or when that process has ended", dir, locked.PID, asked))
	}
	if err != nil {
		return nil, unusable(dir, err)
	}
	if torn := s.Recovery().TornTail; torn != nil {
		fmt.Fprintf(c.err, "mapwright: the log ended in the middle of a write: %v\n", torn)
	}
	return s, nil
}

// unusable turns what is wrong with a data directory into a refusal that names it; other errors are failures.
func unusable(dir datadir.Dir, err error) error {
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		return refusal(&datadir.BusyError{Dir: dir, PID: locked.PID})
	}
	if other, ok := errors.AsType[*state.IdentityError](err); ok {
		return refusal(other)
	}
	for _, known := range []error{state.ErrExists, state.ErrNotOurs, datadir.ErrUnusable, datadir.ErrNotOurs,
		crawl.ErrNotAgain, crawl.ErrLogin} {
		if errors.Is(err, known) {
			return refusal(err)
		}
	}
	if diskFull(err) {
		advice := "free some space, or choose another --data-dir"
		if dir.CheckOld() == nil {
			advice = fmt.Sprintf("free some space, then '%s' continues the crawl; nothing that was recorded is lost",
				dir.Command("resume"))
		}
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return &exitError{exitFailed, err}
}

// diskFull reports whether a disk has no space left.
func diskFull(err error) bool {
	return errors.Is(err, state.ErrDiskFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
