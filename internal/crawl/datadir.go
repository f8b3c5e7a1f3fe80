package crawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mapwright/mapwright/internal/export"
)

// Dir is a crawl's data directory. Everything that Mapwright makes in it is named here.
type Dir string

// The files.
func (d Dir) State() string      { return filepath.Join(string(d), "state") }
func (d Dir) Plan() string       { return filepath.Join(string(d), "crawl.json") }
func (d Dir) JSONL() string      { return filepath.Join(string(d), "sitemap.jsonl") }
func (d Dir) CSV() string        { return filepath.Join(string(d), "sitemap.csv") }
func (d Dir) Links() string      { return filepath.Join(string(d), "links.jsonl") }
func (d Dir) Report() string     { return filepath.Join(string(d), "report.json") }
func (d Dir) MetricsLog() string { return filepath.Join(string(d), "metrics.jsonl") }
func (d Dir) Log() string        { return filepath.Join(string(d), "mapwright.log") }
func (d Dir) Socket() string     { return filepath.Join(string(d), "control.sock") }

// Errors about data directories.
var (
	ErrForeign = errors.New("holds files that Mapwright did not make")
	ErrNoCrawl = errors.New("holds no crawl")
	ErrHas     = errors.New("already holds a crawl")
)

// Holds says whether there is a crawl in the directory.
func (d Dir) Holds() (bool, error) {
	switch _, err := os.Stat(d.State()); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// CheckNew says whether a new crawl may be made here. Nothing is created.
func (d Dir) CheckNew() error {
	has, err := d.Holds()
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d, err)
	}
	if has {
		return fmt.Errorf("data directory %s %w: go on with 'mapwright resume --data-dir %s', or delete it with 'mapwright wipe --data-dir %s'", d, ErrHas, d, d)
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return d.checkParent()
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("data directory %s %w (such as %s): choose another", d, ErrForeign, entries[0].Name())
	}
	return checkWritable(string(d))
}

// checkParent looks whether the directory could be made, without making it.
func (d Dir) checkParent() error {
	for parent := filepath.Dir(filepath.Clean(string(d))); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent) {
			continue
		}
		if err != nil {
			return fmt.Errorf("data directory %s: %w", d, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("data directory %s: %s is not a directory", d, parent)
		}
		return checkWritable(parent)
	}
}

// CheckOld says whether there is a crawl to go on with.
func (d Dir) CheckOld() error {
	has, err := d.Holds()
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d, err)
	}
	if !has {
		return fmt.Errorf("data directory %s %w: start one with 'mapwright crawl'", d, ErrNoCrawl)
	}
	return nil
}

// Made lists what Mapwright made in the directory, and what it did not.
func (d Dir) Made() (made, foreign []string, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, path := range []string{d.State(), d.Plan(), d.JSONL(), d.CSV(), d.Links(), d.Report(), d.MetricsLog(), d.Log(), d.Socket()} {
		known[filepath.Base(path)] = true
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".tmp")
		if known[name] || export.IsSitemap(name) {
			made = append(made, e.Name())
		} else {
			foreign = append(foreign, e.Name())
		}
	}
	return made, foreign, nil
}
