package slot

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shared makes a slot's directory with a file of another user in it.
func shared(t *testing.T, name, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "slot")
	if err := makeShared(dir); err != nil {
		t.Fatal(err)
	}
	if name != "" {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Files that are no tickets neither block the queue nor disturb its numbers.
func TestFilesThatAreNoTicketsAreIgnored(t *testing.T) {
	for _, name := range []string{"ticket-18446744073709551615", "ticket-09223372036854775808", "ticket-1", "ticket-x",
		"ticket-", "other"} {
		dir := shared(t, name, "")
		first := acquire(t, t.Context(), dir, "u0", noWait(t))
		if err := first.Release(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A directory in the place of a ticket.
	dir := shared(t, "", "")
	if err := os.Mkdir(path(dir, 7), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, t.Context(), dir, "u0", noWait(t)).Release(); err != nil {
		t.Error(err)
	}
}

// What cannot be worked around is reported as ErrUnusable, so that the caller can use another directory.
func TestUnusableDirectories(t *testing.T) {
	for name, dir := range map[string]string{
		"the highest number is taken": shared(t, filepath.Base(path("", maxTicket)), ""),
		"the gate is a directory": func() string {
			dir := shared(t, "", "")
			if err := os.Mkdir(filepath.Join(dir, "gate"), 0o755); err != nil {
				t.Fatal(err)
			}
			return dir
		}(),
		"a file instead of the directory": filepath.Join(shared(t, "file", ""), "file"),
	} {
		if _, err := Acquire(t.Context(), dir, Info{}, noWait(t)); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A ticket's text is read only up to a bound.
func TestLongTicket(t *testing.T) {
	dir := shared(t, "", "")
	text, err := json.Marshal(Info{StartURL: strings.Repeat("x", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	s := acquire(t, t.Context(), dir, "u0", noWait(t))
	if err := os.WriteFile(s.lock.Path(), append([]byte{' '}, text...), 0o644); err != nil {
		t.Fatal(err)
	}
	if info, alive := look(s.lock.Path()); !alive || len(info.StartURL) > maxInfo {
		t.Errorf("alive %v with %d bytes of text", alive, len(info.StartURL))
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
}
