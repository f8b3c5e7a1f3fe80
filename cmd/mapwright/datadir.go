package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/state"
)

const defaultDataDir = "./data"

// dataDir is where a command finds its crawl: --data-dir, else the environment, else a configuration file, else ./data.
type dataDir struct {
	cmd     *cobra.Command
	flag    string
	environ []string
}

func addDataDir(cmd *cobra.Command, environ []string) *dataDir {
	d := &dataDir{cmd: cmd, environ: environ}
	cmd.Flags().StringVarP(&d.flag, config.DataDirName, "d", defaultDataDir, "`directory` of the crawl")
	if err := cmd.MarkFlagDirname(config.DataDirName); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
	return d
}

// dir is the directory by the flag, the environment or the configuration file of a command.
func (d *dataDir) dir(settings *settingFlags) (datadir.Dir, error) {
	name := d.flag
	if !d.cmd.Flags().Changed(config.DataDirName) {
		if texts := settings.outside(config.DataDirName); len(texts) > 0 {
			name = texts[len(texts)-1]
		}
	}
	if name == "" { // such as a variable of a script that is not set: it must not mean some directory
		return "", usage("--data-dir is empty")
	}
	return datadir.Dir(name), nil
}

// existing is the directory of a command that works on a crawl that exists. If the configuration file cannot be read,
// the directory that it may name is not known, so the command is refused. The settings are nil for a command that has
// none.
func (d *dataDir) existing(settings *settingFlags) (datadir.Dir, error) {
	if settings == nil {
		settings = &settingFlags{environ: d.environ}
	}
	if settings.sources().fileErr != nil {
		_, err := settings.load()
		return "", err
	}
	return d.dir(settings)
}

// orArgument is the directory of a command that takes it as an argument too.
func (d *dataDir) orArgument(args []string, settings *settingFlags) (datadir.Dir, error) {
	if len(args) == 0 {
		return d.existing(settings)
	}
	if d.cmd.Flags().Changed(config.DataDirName) {
		return "", usage("the directory is given twice, as %s and as --data-dir %s", args[0], d.flag)
	}
	if args[0] == "" {
		return "", usage("the directory is empty")
	}
	return datadir.Dir(args[0]), nil
}

// refusal is the exit status of what could not begin.
func refusal(err error) error { return &exitError{exitUsage, err} }

// openStored opens the state of a crawl that did not answer, as asked tells, and says what had to be repaired. If the
// caller is going to read every page, checkAll finds damage in any of them before the state is changed.
func openStored(io stdio, dir datadir.Dir, checkAll bool, asked error) (*state.Store, error) {
	s, err := state.Open(dir.State(), state.Options{Mode: state.ExistingOnly, CheckValues: checkAll})
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		// It is starting, ending, or no crawl but another export; or its socket cannot be used.
		return nil, refusal(fmt.Errorf("data directory %s is in use by process %d, which cannot be asked (%w): try "+
			"again, or when that process has ended", dir, locked.PID, asked))
	}
	if err != nil {
		return nil, unusable(dir, err)
	}
	if torn := s.Recovery().TornTail; torn != nil {
		fmt.Fprintf(io.err, "mapwright: the log ended in the middle of a write: %v\n", torn)
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
		crawl.ErrNotAgain} {
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
