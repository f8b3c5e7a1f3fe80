package slot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// pollEvery is how often a waiter looks whether the tickets before it are gone. A blocking lock could not be
	// interrupted.
	pollEvery = 100 * time.Millisecond
	// gateWait bounds the wait for the gate, which is held only while a ticket is made.
	gateWait = 10 * time.Second
	// mostHeld is how long one ticket can be the first. A safe crawl takes a minute, and its files some seconds.
	mostHeld = 10 * time.Minute
	// maxTicket is the highest number of a ticket. Files with higher numbers are not tickets.
	maxTicket = 1 << 62
	// mostFiles is how many files a directory may have, else it is not used. Every poll looks at all of them, and any
	// user may make some.
	mostFiles = 1000
	// maxInfo bounds what is read of a ticket.
	maxInfo = 16 << 10
	// infoAt is where the information in a ticket begins. On Windows the lock covers the first byte, which other
	// handles cannot read then.
	infoAt = 1
)

// Info tells the other waiters who holds a ticket.
type Info struct {
	PID      int       `json:"pid"`
	StartURL string    `json:"start_url"`
	DataDir  string    `json:"data_dir"`
	Since    time.Time `json:"since"`
}

// Waiting is what a waiter is told: which crawl owns the slot, and how many go first. Another user may have written the
// ticket, so the texts in Owner are not trusted: clean them before they are shown.
type Waiting struct {
	Owner Info
	Ahead int
}

// Slot is a ticket that is held. Release gives it back.
type Slot struct {
	lock *flock.Flock
}

// ownDir is the directory that the crawls of this user share.
func ownDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "mapwright", "safe-slot")
	return dir, os.MkdirAll(dir, 0o700)
}

// Queue is where crawls of this process wait for the slot.
type Queue struct {
	Dir string // made if it is not there; empty is the one that all crawls of the machine share
	Log *slog.Logger

	first first
}

// first is the ticket that was the first when a waiter last looked.
type first struct {
	mu     sync.Mutex
	number uint64    // guarded by mu
	since  time.Time // guarded by mu; when it was first seen there
}

// isStuck takes the number of the first ticket, and reports whether no safe crawl can have been the first for so long.
func (f *first) isStuck(number uint64) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number != number {
		f.number, f.since = number, time.Now()
	}
	return time.Since(f.since) > mostHeld
}

// Acquire waits until this process owns the slot. If the directory cannot be used, as any other user can bring about,
// the log gets a warning, and the wait is for the crawls of this user alone. onWait is called when a wait begins and
// whenever what it would be told has changed.
func (q *Queue) Acquire(ctx context.Context, info Info, onWait func(Waiting)) (*Slot, error) {
	dir := cmp.Or(q.Dir, filepath.Join(os.TempDir(), "mapwright-safe-slot"))
	s, err := acquireIn(ctx, dir, &q.first, info, onWait)
	if err == nil || ctx.Err() != nil {
		return s, err
	}
	own, ownErr := ownDir()
	if ownErr != nil {
		return nil, errors.Join(err, ownErr)
	}
	q.Log.Warn("Files of other users prevent that safe crawls of all users of this machine wait for each other; "+
		"this one waits only for those of its own user",
		"directory", dir, "error", err)
	return acquireIn(ctx, own, nil, info, onWait)
}

// acquireIn is Acquire for one directory. It fails if a ticket is the first for too long, unless f is nil.
func acquireIn(ctx context.Context, dir string, f *first, info Info, onWait func(Waiting)) (*Slot, error) {
	if err := makeShared(dir); err != nil {
		return nil, err
	}
	s, number, err := takeTicket(ctx, dir, info)
	if ctx.Err() != nil {
		if s != nil {
			err = s.Release()
		}
		return nil, errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("take a ticket: %w", err)
	}
	var told Waiting
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		now, first, err := ahead(dir, number)
		if err == nil && now.Ahead > 0 && f.isStuck(first) {
			err = fmt.Errorf("%s is the first for more than %v, longer than any safe crawl", path(dir, first), mostHeld)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("look at the slot's tickets: %w", err), s.Release())
		}
		if now.Ahead == 0 {
			return s, nil
		}
		if now != told {
			onWait(now)
			told = now
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), s.Release())
		case <-tick.C:
		}
	}
}

// Release gives the slot to the next waiter. It is safe to call it twice.
func (s *Slot) Release() error {
	if s.lock == nil {
		return nil
	}
	// The file is removed before the lock is released, so that it is not taken for the ticket of a dead process.
	// Windows cannot remove an open file, so there it is removed afterwards.
	err := os.Remove(s.lock.Path())
	if closed := s.lock.Close(); err != nil || closed != nil {
		if err = os.Remove(s.lock.Path()); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		err = errors.Join(err, closed)
	}
	s.lock = nil
	return err
}

// makeShared makes dir for all users of the machine, each of whom may remove only files of their own.
func makeShared(dir string) error {
	if err := os.Mkdir(dir, 0o777); err == nil {
		return os.Chmod(dir, 0o777|os.ModeSticky)
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// takeTicket makes the next ticket while it holds the lock of the file "gate", so that numbers are given in order.
func takeTicket(ctx context.Context, dir string, info Info) (*Slot, uint64, error) {
	gate := filepath.Join(dir, "gate")
	if err := makeRegular(gate, 0o666, nil); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, 0, err
	}
	if err := checkRegular(gate); err != nil {
		return nil, 0, err
	}
	lock := flock.New(gate, flock.SetFlag(os.O_RDONLY|openFlags))
	bounded, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	if _, err := lock.TryLockContext(bounded, pollEvery/10); err != nil {
		return nil, 0, fmt.Errorf("lock %s: %w", gate, err)
	}
	defer lock.Close()
	numbers, err := tickets(dir)
	if err != nil {
		return nil, 0, err
	}
	number := uint64(1)
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1] + 1
	}
	if number > maxTicket {
		return nil, 0, fmt.Errorf("%s has the highest possible number", path(dir, number-1))
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, 0, err
	}
	if err := makeRegular(path(dir, number), 0o644, append([]byte{' '}, text...)); err != nil {
		return nil, 0, err
	}
	// Between its creation and its locking the ticket looks like that of a dead process. That does no harm: only
	// processes with higher numbers look at it, and they have to wait for the gate.
	s := &Slot{flock.New(path(dir, number), flock.SetFlag(os.O_RDONLY|openFlags))}
	locked, err := s.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("another process locked %s", path(dir, number))
	}
	if err != nil {
		return nil, 0, errors.Join(err, os.Remove(path(dir, number)))
	}
	return s, number, nil
}

// makeRegular makes a new file with the given mode, whatever the umask is, so that other users can open it.
func makeRegular(path string, mode os.FileMode, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// checkRegular refuses links, pipes, devices and directories.
func checkRegular(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	return err
}

// ahead finds the tickets before number, of which it returns the first, and removes those of dead processes on the way.
func ahead(dir string, number uint64) (w Waiting, first uint64, err error) {
	numbers, err := tickets(dir)
	if err != nil {
		return w, 0, err
	}
	for _, n := range numbers {
		if n >= number {
			break
		}
		info, alive := look(path(dir, n))
		if !alive {
			continue
		}
		if w.Ahead == 0 {
			w.Owner, first = info, n
		}
		w.Ahead++
	}
	return w, first, nil
}

// look reports whether the process that made a ticket still runs. The ticket of one that has ended is removed. A file
// that cannot be opened and locked is no ticket: Acquire makes regular files that every user may read.
func look(path string) (info Info, alive bool) {
	if checkRegular(path) != nil {
		return info, false
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY|openFlags))
	locked, err := lock.TryRLock()
	if err != nil {
		return info, false
	}
	if locked {
		_ = lock.Close()
		_ = os.Remove(path) // that of another user cannot be removed and does no harm, since it is not locked
		return info, false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return info, !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	// The information is only shown. A ticket without it is still a ticket.
	_ = json.NewDecoder(io.NewSectionReader(f, infoAt, maxInfo)).Decode(&info)
	return info, true
}

// tickets are the numbers in the directory, lowest first.
func tickets(dir string) ([]uint64, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(mostFiles + 1)
	if err != nil && err != io.EOF { // which it is for an empty directory
		return nil, err
	}
	if len(entries) > mostFiles {
		return nil, fmt.Errorf("%s has more than %d files", dir, mostFiles)
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "ticket-")
		if !ok || len(digits) != 20 {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil && n <= maxTicket {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func path(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("ticket-%020d", number))
}
