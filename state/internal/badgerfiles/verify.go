package badgerfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"golang.org/x/sync/errgroup"

	"github.com/mapwright/mapwright/internal/disk"
)

// maxValueCheck is how many bytes of value logs Verify checks, the newest first, unless it is asked for all. Badger
// checks values again when it reads them, so this only decides whether damage is found before anything is changed.
// Without a bound the cost of a resume would grow with the crawl.
const maxValueCheck = 256 << 20

// A listing is the files in Badger's directory, and what is known of them.
type listing struct {
	dir     string
	sizes   map[string]int64
	tables  []string        // paths of the tables
	mems    []string        // names of the memtable files
	values  []string        // names of the value logs, the newest first
	durable map[string]Span // how far the files were durable
	made    bool            // Badger was made durable at least once, so it must be there
}

// Verify reads what Badger would rely on and reports damage as a *disk.CorruptError. It changes nothing. Badger itself
// goes on without the damaged part, deletes it, or ends the process.
//
// Durable is what Sync returned last. Made says that Sync has returned, so the files must be there. If all is false,
// only the newest value logs are checked.
func Verify(dir string, durable map[string]Span, made, all bool) error {
	files, err := list(dir, durable, made)
	if err != nil || files == nil {
		return err
	}
	if err := files.verifyManifest(); err != nil {
		return err
	}
	for _, name := range files.mems {
		if err := files.verifyEntries(name); err != nil {
			return err
		}
	}
	if err := files.verifyNewest(); err != nil {
		return err
	}
	if err := files.verifyValues(all); err != nil {
		return err
	}
	return files.verifyTables()
}

// list returns nil if there is no such directory.
func list(dir string, durable map[string]Span, made bool) (*listing, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		if made {
			return nil, &disk.CorruptError{What: dir, Reason: "it is missing"}
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &listing{dir: dir, sizes: map[string]int64{}, durable: durable, made: made}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		name := e.Name()
		f.sizes[name] = info.Size()
		switch filepath.Ext(name) {
		case ".mem":
			f.mems = append(f.mems, name)
		case ".vlog":
			f.values = append(f.values, name)
		}
	}
	slices.SortFunc(f.values, func(a, b string) int {
		newer, _ := fileID(b)
		older, _ := fileID(a)
		return int(newer - older)
	})
	return f, nil
}

func (f *listing) path(name string) string { return filepath.Join(f.dir, name) }

func (f *listing) bad(name, format string, args ...any) error {
	return &disk.CorruptError{What: f.path(name), Reason: fmt.Sprintf(format, args...)}
}

// verifyManifest reads the list of tables. Badger deletes the tables that it does
// not find in it.
func (f *listing) verifyManifest() error {
	name := badger.ManifestFilename
	size, ok := f.sizes[name]
	if !ok {
		if f.made {
			return f.bad(name, "it is missing")
		}
		return nil
	}
	file, err := os.Open(f.path(name))
	if err != nil {
		return err
	}
	defer file.Close()
	manifest, end, err := badger.ReplayManifestFile(file, 0, badger.DefaultOptions(f.dir).WithLogger(nil))
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n") // what follows is advice to users of Badger
		return f.bad(name, "%s", reason)
	}
	if end < size {
		if err := f.verifyManifestEnd(end, size); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(manifest.Tables)) {
		name := table.IDToFilename(id)
		if _, ok := f.sizes[name]; !ok {
			return f.bad(name, "it is missing")
		}
		f.tables = append(f.tables, f.path(name))
	}
	return nil
}

// verifyManifestEnd decides what the bytes are that follow the last whole change
// of the manifest: a write that power loss cut short, which Badger drops, or
// damage. Badger keeps the memtable file until the change is durable, and a
// change that was cut short has no checksum that matches.
func (f *listing) verifyManifestEnd(end, size int64) error {
	b, err := os.ReadFile(f.path(badger.ManifestFilename))
	if err != nil {
		return err
	}
	rest := b[end:min(size, int64(len(b)))]
	if len(f.mems) == 0 {
		return f.bad(badger.ManifestFilename, "the change at offset %d is incomplete", end)
	}
	if len(rest) < 8 {
		return nil
	}
	want, sum, crc := binary.BigEndian.Uint32(rest[4:]), uint32(0), crc32.MakeTable(crc32.Castagnoli)
	for _, c := range rest[8:] {
		if sum == want {
			break
		}
		sum = crc32.Update(sum, crc, []byte{c})
	}
	if sum == want {
		return f.bad(badger.ManifestFilename, "the length of the change at offset %d is wrong", end)
	}
	return nil
}

// verifyEntries checks a memtable file or a value log as far as it was durable.
// What follows is applied again from the log, or nothing refers to it.
func (f *listing) verifyEntries(name string) error {
	if f.sizes[name] == 0 {
		return nil // it was created or deleted halfway and holds nothing
	}
	got, err := scanEntries(f.path(name), Span{})
	if errors.Is(err, errEncrypted) {
		return f.bad(name, "%v", err)
	}
	want, ok := f.durable[name]
	if err != nil || !ok || got.End >= want.End {
		return err
	}
	other := got.First != 0 && got.First != want.First
	if got.First == 0 {
		other, err = onlyZeros(f.path(name), entryFileHeader)
	}
	if err != nil || other {
		return err // a newer file: the name was free again
	}
	return f.bad(name, "the entry at offset %d does not decode, and those up to %d were durable", got.End, want.End)
}

// verifyNewest checks that the newest value log that was durable is there, or a newer one. Badger never deletes or
// empties the newest. If it were missing or empty, Badger would create a file with its number, and pointers to old
// values would lead into that. An older value log that is missing may have been collected; if it was not, reading a
// value of it fails.
func (f *listing) verifyNewest() error {
	newest, newestID := "", int64(-1)
	for name := range f.durable {
		if id, ext := fileID(name); ext == ".vlog" && id > newestID {
			newest, newestID = name, id
		}
	}
	if newest == "" {
		return nil
	}
	if len(f.values) > 0 {
		id, _ := fileID(f.values[0])
		if end := f.durable[newest].End; id == newestID && f.sizes[newest] == 0 && end > entryFileHeader {
			return f.bad(newest, "it is empty, and entries up to %d were durable", end)
		}
		if id >= newestID {
			return nil
		}
	}
	return f.bad(newest, "it is missing")
}

// verifyValues checks the value logs, the newest first.
func (f *listing) verifyValues(all bool) error {
	left := int64(maxValueCheck)
	for i, name := range f.values {
		left -= f.sizes[name]
		if i > 0 && left < 0 && !all {
			break
		}
		if err := f.verifyEntries(name); err != nil {
			return err
		}
	}
	return nil
}

// verifyTables checks every table, several at a time.
func (f *listing) verifyTables() error {
	var group errgroup.Group
	workers := min(runtime.GOMAXPROCS(0), 4)
	for w := range workers {
		group.Go(func() error {
			var buf []byte
			var err error
			for i := w; i < len(f.tables) && err == nil; i += workers {
				buf, err = checkTable(f.tables[i], buf)
			}
			return err
		})
	}
	return group.Wait()
}
