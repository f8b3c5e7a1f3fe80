package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/mapwright/mapwright/state"
)

// Dir is a crawl's data directory. Everything that Mapwright makes in it is named here.
type Dir string

// The files.
func (d Dir) State() string      { return filepath.Join(string(d), "state") }
func (d Dir) Plan() string       { return filepath.Join(string(d), "crawl.json") }
func (d Dir) JSONL() string      { return filepath.Join(string(d), "sitemap.jsonl") }
func (d Dir) CSV() string        { return filepath.Join(string(d), "sitemap.csv") }
func (d Dir) Links() string      { return filepath.Join(string(d), "links.jsonl") }
func (d Dir) Changes() string    { return filepath.Join(string(d), ChangesName) }
func (d Dir) Problems() string   { return filepath.Join(string(d), ProblemsName) }
func (d Dir) Report() string     { return filepath.Join(string(d), "report.json") }
func (d Dir) ReportHTML() string { return filepath.Join(string(d), ReportHTMLName) }
func (d Dir) MetricsLog() string { return filepath.Join(string(d), "metrics.jsonl") }
func (d Dir) Log() string        { return filepath.Join(string(d), "mapwright.log") }
func (d Dir) Archive() string    { return filepath.Join(string(d), "warc") }
func (d Dir) Machine() string    { return filepath.Join(string(d), "machine") } // identifier of a machine of a cluster
func (d Dir) Socket() string     { return filepath.Join(string(d), "control.sock") }

// Archives are the WARC files of the crawl that are complete, as paths within the directory.
func (d Dir) Archives() (paths []string, err error) {
	entries, err := os.ReadDir(d.Archive())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".warc.gz") {
			paths = append(paths, path.Join(filepath.Base(d.Archive()), e.Name()))
		}
	}
	return paths, err
}

// Command is a command of Mapwright for this directory, as a user can paste it into a shell.
func (d Dir) Command(name string) string {
	quoted := string(d)
	switch {
	case !strings.ContainsFunc(quoted, needsQuotes):
	case runtime.GOOS != "windows" && strings.ContainsAny(quoted, "\"\\$`!"):
		quoted = "'" + strings.ReplaceAll(quoted, "'", `'\''`) + "'"
	default: // messages have commands in single quotes
		quoted = `"` + quoted + `"`
	}
	return "mapwright " + name + " --data-dir " + quoted
}

// Hide removes the path of the directory from a text, for readers who must not know where it is.
func (d Dir) Hide(text string) string {
	paths := strings.NewReplacer(string(d)+string(filepath.Separator), "", string(d), "the directory of the crawl")
	return paths.Replace(text)
}

// needsQuotes reports whether a shell may treat a character of a path specially. A backslash separates the parts of a
// path on Windows.
func needsQuotes(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("/._-+=:,@%", c) &&
		(c != '\\' || runtime.GOOS != "windows")
}

// Errors about data directories.
var (
	ErrForeign  = errors.New("holds files that Mapwright did not make")
	ErrNoCrawl  = errors.New("holds no crawl")
	ErrHas      = errors.New("already holds a crawl")
	ErrUnusable = errors.New("cannot be made")
)

// A BusyError says that a process has the crawl open.
type BusyError struct {
	Dir Dir
	PID int // zero if it is not known
}

// Error implements error.
func (e *BusyError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s: '%s' shows what it does", e.Dir, who,
		e.Dir.Command("status"))
}

// Holds says whether there is a crawl in the directory, and whether a process has it open.
func (d Dir) Holds() (bool, error) {
	info, err := state.Look(d.State())
	switch {
	case errors.Is(err, state.ErrNotOurs), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("data directory %s: %w", d, err)
	case info.PID != 0:
		return true, &BusyError{d, info.PID}
	}
	return info.Exists, nil
}

// isView reports whether the directory is that of a machine of a cluster, which has no plan.
func isView(d Dir) bool {
	info, _ := state.Look(d.State())
	return info.View
}

// CheckNew says whether a new crawl may be made here. Nothing is created.
func (d Dir) CheckNew() error {
	has, err := d.Holds()
	if err != nil {
		return err
	}
	if has {
		if _, err := os.Stat(d.Plan()); errors.Is(err, fs.ErrNotExist) && !isView(d) {
			return fmt.Errorf("data directory %s %w whose crawl.json is missing: it was killed before it began, "+
				"or the file is lost; delete it with '%s'", d, ErrHas, d.Command("wipe"))
		}
		return fmt.Errorf("data directory %s %w: go on with '%s', or delete it with '%s'", d, ErrHas,
			d.Command("resume"), d.Command("wipe"))
	}
	made, foreign, err := d.Made()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return d.checkParent()
	case err != nil:
		return fmt.Errorf("data directory %s: %w", d, err)
	case len(foreign) > 0:
		return fmt.Errorf("data directory %s %w (such as %s): choose another", d, ErrForeign, foreign[0])
	}
	// The state that an interrupted start left is completed by the next one. Outputs are a result that must not be
	// lost.
	for _, name := range made {
		if name != filepath.Base(d.State()) && name != RecordName {
			return fmt.Errorf("data directory %s has files of an earlier crawl (such as %s): choose another, "+
				"or delete "+
				"them with '%s'", d, name, d.Command("wipe"))
		}
	}
	return checkWritable(string(d))
}

// checkParent looks whether the directory could be made, without making it.
func (d Dir) checkParent() error {
	for at := filepath.Clean(string(d)); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && at != filepath.Dir(at) {
			continue
		}
		if err != nil {
			return fmt.Errorf("data directory %s: %w", d, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("data directory %s: %s is not a directory", d, at)
		}
		return checkWritable(at)
	}
}

// CheckOld says whether there is a crawl to look at, running or not.
func (d Dir) CheckOld() error {
	err := d.CheckFree()
	if _, busy := errors.AsType[*BusyError](err); busy {
		return nil
	}
	return err
}

// CheckFree says whether there is a crawl that no process has open.
func (d Dir) CheckFree() error {
	has, err := d.Holds()
	if err == nil && !has {
		err = fmt.Errorf("data directory %s %w: start one with 'mapwright crawl'", d, ErrNoCrawl)
	}
	return err
}

// Made lists what Mapwright made in the directory, and what it did not. Only a directory with a crawl, or with what is
// left of one (its record of files), has files of Mapwright. Links never are its files.
func (d Dir) Made() (made, foreign []string, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, nil, err
	}
	stateName := filepath.Base(d.State())
	holds := slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == RecordName && e.Type().IsRegular()
	})
	hasState := false
	if info, err := os.Lstat(d.State()); err == nil && info.IsDir() {
		// Without a record of files an empty directory may be of another program.
		found, err := state.Look(d.State())
		hasState = found.Exists || err != nil && !errors.Is(err, state.ErrNotOurs) || err == nil && holds
	}
	holds = holds || hasState
	for _, e := range entries {
		name := e.Name()
		unfinished := e.Type().IsRegular() && strings.HasSuffix(name, TempSuffix)
		ours := holds && (d.isWorkFile(e) || Ours(string(d), name) || unfinished)
		if name == stateName {
			ours = hasState
		}
		if ours {
			made = append(made, name)
		} else {
			foreign = append(foreign, name)
		}
	}
	return made, foreign, nil
}

// isWorkFile reports whether an entry of a directory that holds a crawl is a file that the crawl works with.
func (d Dir) isWorkFile(e fs.DirEntry) bool {
	switch e.Name() {
	case filepath.Base(d.Archive()):
		return e.IsDir()
	case filepath.Base(d.Socket()):
		return e.Type() == fs.ModeSocket
	case filepath.Base(d.Plan()), filepath.Base(d.Machine()), filepath.Base(d.Report()), filepath.Base(d.MetricsLog()),
		filepath.Base(d.Log()), RecordName, lockName:
		return e.Type().IsRegular()
	}
	return false
}

// Unmaker is called before Make, and returns a function that removes what Make makes: the directory and its record, if
// they are not there yet. The function removes nothing if there is anything else in the directory by then.
func (d Dir) Unmaker() (unmake func() error) {
	_, err := os.Lstat(string(d))
	isNew, hasRecord := errors.Is(err, fs.ErrNotExist), HasRecord(string(d))
	return func() error {
		entries, err := os.ReadDir(string(d))
		isOther := func(e fs.DirEntry) bool { return e.Name() != RecordName }
		if err != nil || hasRecord || slices.ContainsFunc(entries, isOther) {
			return nil
		}
		if len(entries) > 0 {
			if err := os.Remove(filepath.Join(string(d), RecordName)); err != nil {
				return err
			}
		}
		if !isNew {
			return nil
		}
		return os.Remove(string(d))
	}
}

// Make makes a data directory that only its user can enter, since the settings and the log may hold secrets. It keeps
// the mode of a directory that exists.
func Make(dir string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return startRecord(dir)
}
