package badgerfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/disk"
)

// Files are the files of an open Badger. The caller makes sure that only one call runs at a time.
type Files struct {
	dir      string
	scanFrom int64           // the first value log that this run makes
	newest   int64           // newest value log at the last Sync; older ones are durable
	spans    map[string]Span // how far files were valid at the last Sync
	use      Use             // at the last Sync
}

// Use is how many bytes Badger's files take on disk.
type Use struct {
	Tables int64 // tables and memtables
	Values int64 // value logs
}

// New looks at the files in dir before Badger is opened. Durable is what Sync returned last.
func New(dir string, durable map[string]Span) (*Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &Files{dir: dir, scanFrom: newestValueLog(entries) + 1, spans: map[string]Span{}}
	for name, known := range durable {
		if _, ext := fileID(name); ext == ".vlog" {
			f.spans[name] = known // memtables have new names, or old names and new content
		}
	}
	return f, nil
}

// Sync makes all that Badger has committed durable. It returns how far each file is durable for certain; the map is not
// changed afterwards.
func (f *Files) Sync() (map[string]Span, error) {
	// Only what was valid before the sync is known to be durable after it.
	found, err := f.scan()
	if err != nil {
		return nil, err
	}
	return found, f.syncFiles()
}

// Use returns what the files took on disk when they were last made durable.
func (f *Files) Use() Use { return f.use }

// scan returns how far Badger's memtables and value logs are valid. All that is committed lies before those ends. Each
// file is read from where the last call ended, so that nothing is read twice. Value logs that were there before Badger
// was opened are not written to, and keep the ends that were known then.
func (f *Files) scan() (map[string]Span, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	found := map[string]Span{}
	for _, e := range entries {
		name := e.Name()
		id, ext := fileID(name)
		known, isKnown := f.spans[name]
		switch {
		case ext == ".vlog" && id < max(f.scanFrom, f.newest):
			if isKnown {
				found[name] = known
			}
			continue
		case ext != ".vlog" && ext != ".mem":
			continue
		}
		got, err := scanEntries(filepath.Join(f.dir, name), known)
		switch {
		case errors.Is(err, os.ErrNotExist):
			// A memtable that was deleted, since a table holds what it held.
		case err != nil:
			return nil, err
		case got.First != 0:
			found[name] = got
		}
	}
	f.spans = found
	return found, nil
}

// syncFiles syncs Badger's memtables and value logs. Badger itself syncs its tables and its manifest when it writes
// them. All entries of transactions that are committed by now are in files that exist by now: value logs are only
// deleted by Collect, and a memtable is deleted when a table holds what it held.
func (f *Files) syncFiles() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	newest := f.newest
	var use Use
	for _, e := range entries {
		id, ext := fileID(e.Name())
		use.add(e, ext)
		switch {
		case ext == ".mem":
		case ext == ".vlog" && id >= f.newest:
			// Only the newest is written to, so those before the newest of last time are durable.
			newest = max(newest, id)
		default:
			continue
		}
		err := syncFile(filepath.Join(f.dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) && ext == ".mem" {
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := disk.SyncDir(f.dir); err != nil {
		return err
	}
	f.newest, f.use = newest, use
	return nil
}

func (u *Use) add(e fs.DirEntry, ext string) {
	info, err := e.Info()
	if err != nil {
		return // it is gone
	}
	switch ext {
	case ".sst", ".mem":
		u.Tables += disk.Allocated(info)
	case ".vlog":
		u.Values += disk.Allocated(info)
	}
}

// fileID returns the number and the extension of a file; no extension if its name is not a number.
func fileID(name string) (id int64, ext string) {
	ext = filepath.Ext(name)
	id, err := strconv.ParseInt(strings.TrimSuffix(name, ext), 10, 64)
	if err != nil {
		return 0, ""
	}
	return id, ext
}

// newestValueLog returns the number of the newest value log; zero if there is none.
func newestValueLog(entries []os.DirEntry) int64 {
	newest := int64(0)
	for _, e := range entries {
		if id, ext := fileID(e.Name()); ext == ".vlog" {
			newest = max(newest, id)
		}
	}
	return newest
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", path, err), f.Close())
	}
	return f.Close()
}
