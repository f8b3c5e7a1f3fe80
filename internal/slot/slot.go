package slot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is how often a waiter looks whether the tickets before it are gone. A blocking flock could not be interrupted.
const pollEvery = 100 * time.Millisecond

// Info tells the other waiters who holds a ticket.
type Info struct {
	PID      int       `json:"pid"`
	StartURL string    `json:"start_url"`
	DataDir  string    `json:"data_dir"`
	Since    time.Time `json:"since"`
}

// Waiting is what a waiter is told: who owns the slot, and how many go first.
type Waiting struct {
	Owner Info
	Ahead int
}

// Slot is a ticket that is held. Release gives it back.
type Slot struct {
	file *os.File
}

// Dir is the directory that all crawls of the machine share.
func Dir() string { return filepath.Join(os.TempDir(), "mapwright-safe-slot") }

// Acquire waits until this process owns the slot of dir, which is made if it is not there. onWait is called when the wait
// begins and whenever what it would be told has changed.
func Acquire(ctx context.Context, dir string, info Info, onWait func(Waiting)) (*Slot, error) {
	if err := makeShared(dir); err != nil {
		return nil, fmt.Errorf("make the slot's directory: %w", err)
	}
	s, number, err := takeTicket(dir, info)
	if err != nil {
		return nil, fmt.Errorf("take a ticket for the slot: %w", err)
	}
	var told Waiting
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		now, err := ahead(dir, number)
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
	if s.file == nil {
		return nil
	}
	err := os.Remove(s.file.Name())
	err = errors.Join(err, s.file.Close()) // the lock goes last, so that nobody takes the file for a dead one's
	s.file = nil
	return err
}

// makeShared makes dir for all users of the machine, each of whom may remove only files of their own.
func makeShared(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, 0o777|os.ModeSticky)
}

// takeTicket makes the next ticket while it holds the directory's lock, so that numbers are given in order and a ticket is
// never seen before it is locked.
func takeTicket(dir string, info Info) (*Slot, uint64, error) {
	gate, err := os.OpenFile(filepath.Join(dir, "gate"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, 0, err
	}
	defer gate.Close()
	if err := unix.Flock(int(gate.Fd()), unix.LOCK_EX); err != nil {
		return nil, 0, err
	}
	numbers, err := tickets(dir)
	if err != nil {
		return nil, 0, err
	}
	number := uint64(1)
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1] + 1
	}
	file, err := os.OpenFile(path(dir, number), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(info)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		_, err = file.Write(text)
	}
	if err != nil {
		return nil, 0, errors.Join(err, os.Remove(file.Name()), file.Close())
	}
	return &Slot{file}, number, nil
}

// ahead finds who goes before number, and removes the tickets of the dead on the way.
func ahead(dir string, number uint64) (Waiting, error) {
	var w Waiting
	numbers, err := tickets(dir)
	if err != nil {
		return w, err
	}
	for _, n := range numbers {
		if n >= number {
			break
		}
		info, alive, err := look(path(dir, n))
		if err != nil {
			return w, err
		}
		if !alive {
			continue
		}
		if w.Ahead == 0 {
			w.Owner = info
		}
		w.Ahead++
	}
	return w, nil
}

// look says whether the process that made a ticket still lives. The ticket of a dead one is removed.
func look(path string) (Info, bool, error) {
	var info Info
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return info, false, nil
	}
	if err != nil {
		return info, false, err
	}
	defer file.Close()
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		// A file of another user cannot be removed here; it does no harm, being unlocked.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) {
			return info, false, err
		}
		return info, false, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return info, false, err
	}
	// What the ticket says is only for people: a half-written one is still a ticket.
	_ = json.NewDecoder(file).Decode(&info)
	return info, true, nil
}

// tickets are the numbers in the directory, lowest first.
func tickets(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "ticket-")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	return numbers, nil
}

func path(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("ticket-%020d", number))
}
