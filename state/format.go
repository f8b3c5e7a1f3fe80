package state

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/state/internal/record"
)

// What a store's directory holds.
const (
	formatName = "FORMAT"
	walDir     = "wal"
	badgerDir  = "badger"
	snapDir    = "snap"
)

// TempPattern is for the names of temporary files that users of a store make
// in its directory, as os.CreateTemp takes it. Wipe deletes such files.
const TempPattern = "sort-*.tmp"

const formatMagic = "mwstate\n"

// A format is the content of the FORMAT file, which makes a directory a store.
// It is written once.
type format struct {
	seed     uint64
	created  time.Time
	identity string   // of the program that made it
	crawl    [16]byte // the crawl that it is a view of; zero for a store with a log of its own
}

func readFormat(dir string) (format, error) {
	path := filepath.Join(dir, formatName)
	body, err := disk.ReadSmallFrame(path, formatMagic, record.Version)
	if err != nil {
		return format{}, err
	}
	r := record.Reader{B: body}
	f := format{seed: r.U64(), created: r.Time(), identity: string(r.Bytes())}
	if len(r.B) > 0 {
		copy(f.crawl[:], r.Take(uint64(len(f.crawl))))
	}
	return f, r.Done(path)
}

func writeFormat(dir string, f format) error {
	_, err := disk.WriteFrame(filepath.Join(dir, formatName), formatMagic, record.Version, func(w io.Writer) error {
		b := binary.BigEndian.AppendUint64(nil, f.seed)
		b = binary.AppendUvarint(b, record.Millis(f.created))
		b = record.AppendString(b, f.identity)
		if f.crawl != [16]byte{} {
			b = append(b, f.crawl[:]...)
		}
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return fmt.Errorf("write format: %w", err)
	}
	return nil
}

// checkIdentity returns an *IdentityError for a store in dir whose keys were
// computed by other rules than this program's.
func (f format) checkIdentity(dir string) error {
	if known := weburl.Identity(); f.identity != known {
		return &IdentityError{Dir: dir, Found: f.identity, Known: known}
	}
	return nil
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// look says whether dir holds a store. It touches nothing. The error is
// ErrNotOurs if there are files and no store; what an interrupted creation
// leaves behind does not count.
func look(dir string) (exists bool, f format, err error) {
	f, err = readFormat(dir)
	if err == nil {
		return true, f, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, f, err
	}
	names, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, f, nil
	}
	if err != nil {
		return false, f, err
	}
	for _, n := range names {
		if n.Name() != disk.LockName && n.Name() != formatName+disk.TempSuffix {
			return false, f, fmt.Errorf("%s: %w", dir, ErrNotOurs)
		}
	}
	return false, f, nil
}

// Info describes a directory whose store is not opened.
type Info struct {
	Exists  bool      // it holds a store
	Created time.Time // when that was made
	PID     int       // of the process that has it open; zero if none has
	View    bool      // it is a view of a crawl of several machines
}

// Look says what dir holds and touches nothing. A directory that is missing or
// empty is no error.
func Look(dir string) (Info, error) {
	exists, f, err := look(dir)
	if err != nil || !exists {
		return Info{}, err
	}
	pid, err := disk.Owner(dir)
	if err != nil {
		return Info{}, fmt.Errorf("look at lock: %w", err)
	}
	return Info{Exists: true, Created: f.created, PID: pid, View: f.crawl != [16]byte{}}, nil
}

// removeStore deletes all but the lock file, which the caller holds. FORMAT goes
// last: until then it can be done again.
func removeStore(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, sub := range []string{snapDir, badgerDir, walDir} {
		errs = append(errs, removeOurs(root, sub))
	}
	for _, name := range []string{inflightName, formatName, formatName + disk.TempSuffix} {
		if err := root.Remove(name); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	errs = append(errs, err)
	for _, e := range entries {
		if temp, _ := filepath.Match(TempPattern, e.Name()); temp && e.Type().IsRegular() {
			errs = append(errs, root.Remove(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// releaseRemoved removes the lock file of a directory without a store, and releases the lock.
func releaseRemoved(dir string, l *disk.Lock) error {
	name := filepath.Join(dir, disk.LockName)
	unlinked := os.Remove(name)
	err := l.Release()
	if unlinked != nil { // Windows cannot remove an open file
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// removeOurs removes the files of the store in one of its directories, and the
// directory if it is empty then. Links are not followed, and files with other
// names than the store gives stay.
func removeOurs(root *os.Root, sub string) error {
	if info, err := root.Lstat(sub); errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	} else if err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), sub)
	if err != nil {
		return err
	}
	left := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !isStoreFile(e.Name()) {
			left = true
			continue
		}
		if err := root.Remove(sub + "/" + e.Name()); err != nil {
			return err
		}
	}
	if left {
		return nil
	}
	return root.Remove(sub)
}

// isStoreFile reports whether the store, its log or Badger gives such a name
// to a file.
func isStoreFile(name string) bool {
	switch name {
	case "MANIFEST", "MANIFEST-REWRITE", "KEYREGISTRY", "REWRITE-KEYREGISTRY", "DISCARD", "LOCK", syncedName,
		durableName:
		return true
	}
	name = strings.TrimSuffix(name, disk.TempSuffix)
	if name == syncedName {
		return true
	}
	ext := filepath.Ext(name)
	number := strings.Trim(strings.TrimSuffix(name, ext), "0123456789abcdef-")
	return number == "" && slices.Contains([]string{".sst", ".vlog", ".mem", ".wal", snapshotExt,
		filepath.Ext(checkpointName(0))}, ext)
}

// Wipe deletes the store in dir, and dir itself if nothing else is in it. The
// store must not be open; the error is a *LockedError if it is. A store whose
// FORMAT is damaged can be deleted too, if another file shows that it is one, and so
// can one of an earlier version, whose files have the same names, and what an
// interrupted creation leaves.
func Wipe(dir string) error {
	exists, _, err := look(dir)
	if _, damaged := errors.AsType[*CorruptError](err); damaged {
		if reached, other := readSynced(filepath.Join(dir, badgerDir)); other == nil && reached.position > 0 {
			exists, err = true, nil
		}
	}
	if v, ok := errors.AsType[*VersionError](err); ok && v.Found < v.Known {
		exists, err = true, nil
	}
	if err != nil {
		return err
	}
	if !exists {
		names, err := os.ReadDir(dir)
		if err != nil || len(names) == 0 {
			return fmt.Errorf("%s: %w", dir, ErrNotExist)
		} // else look has found what an interrupted creation leaves
	}
	l, err := disk.Acquire(dir)
	if err != nil {
		return err
	}
	err = removeStore(dir)
	if err := errors.Join(err, releaseRemoved(dir, l)); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) == 0 {
		return os.Remove(dir)
	}
	return nil
}
