package state

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// What a store's directory holds.
const (
	formatName = "FORMAT"
	lockName   = "LOCK"
	walDir     = "wal"
	badgerDir  = "badger"
	snapDir    = "snap"
)

const formatMagic = "mwstate\n"

// A format is the content of the FORMAT file, which makes a directory a store.
// It is written once.
type format struct {
	seed    uint64
	created time.Time
}

func readFormat(dir string) (format, error) {
	path := filepath.Join(dir, formatName)
	body, err := readBody(path, formatMagic)
	if err != nil {
		return format{}, err
	}
	r := reader{b: body}
	f := format{seed: r.u64(), created: r.time()}
	return f, r.done(path)
}

func writeFormat(dir string, f format) error {
	_, err := writeFile(filepath.Join(dir, formatName), formatMagic, formatVersion, func(w io.Writer) error {
		b := binary.BigEndian.AppendUint64(nil, f.seed)
		_, err := w.Write(binary.AppendUvarint(b, millis(f.created)))
		return err
	})
	if err != nil {
		return fmt.Errorf("write format: %w", err)
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
		if n.Name() != lockName && n.Name() != formatName+tempSuffix {
			return false, f, fmt.Errorf("%s: %w", dir, ErrNotOurs)
		}
	}
	return false, f, nil
}

// Info is what can be said of a directory without opening it.
type Info struct {
	Exists  bool      // it holds a store
	Created time.Time // when that was made
	PID     int       // of the process that has it open; zero if none has
}

// Look says what dir holds and touches nothing. A directory that is missing or
// empty is no error.
func Look(dir string) (Info, error) {
	exists, f, err := look(dir)
	if err != nil || !exists {
		return Info{}, err
	}
	pid, err := lockOwner(dir)
	if err != nil {
		return Info{}, fmt.Errorf("look at lock: %w", err)
	}
	return Info{Exists: true, Created: f.created, PID: pid}, nil
}

// removeStore deletes all but the lock file, which the caller holds. FORMAT goes
// last: until then it can be done again.
func removeStore(dir string) error {
	var errs []error
	for _, name := range []string{snapDir, badgerDir, walDir, formatName, formatName + tempSuffix} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// Wipe deletes the store in dir, and dir itself if nothing else is in it. The
// store must not be open; the error is a *LockedError if it is.
func Wipe(dir string) error {
	exists, _, err := look(dir)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("%s: %w", dir, ErrNotExist)
	}
	l, err := acquireLock(dir)
	if err != nil {
		return err
	}
	err = errors.Join(removeStore(dir), os.RemoveAll(filepath.Join(dir, lockName)), l.release())
	if err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) == 0 {
		return os.Remove(dir)
	}
	return nil
}
