package slot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// Where the directory that users share cannot be used, the crawls of one user wait for each other, and the log says so.
func TestUnusableDirectories(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} { // of the directory of one user
		t.Setenv(name, t.TempDir())
	}
	for name, dir := range map[string]string{
		"the highest number is taken": shared(t, filepath.Base(path("", maxTicket)), ""),
		"the gate is a directory": func() string {
			dir := shared(t, "", "")
			if err := os.Mkdir(filepath.Join(dir, "gate"), 0o755); err != nil {
				t.Fatal(err)
			}
			return dir
		}(),
		"many files": func() string {
			dir := shared(t, "", "")
			for n := range uint64(mostFiles + 1) {
				if err := os.WriteFile(path(dir, 2*n), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}(),
		"a file instead of the directory": filepath.Join(shared(t, "file", ""), "file"),
	} {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		q := &Queue{Dir: dir, Log: log}
		first, err := q.Acquire(t.Context(), Info{StartURL: "u0"}, noWait(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || !strings.Contains(text.String(), dir) {
			t.Errorf("%s: %d warnings: %s", name, n, &text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second, err := q.Acquire(ctx, Info{}, func(w Waiting) {
			if w.Ahead != 1 || w.Owner.StartURL != "u0" {
				t.Errorf("%s: is told %+v", name, w)
			}
			cancel()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: another crawl gets %v, %v", name, second, err)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
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

// A ticket that is held for longer than any safe crawl takes is not waited for. The next crawls of the process do not
// wait at all. Tickets that give way are waited for, however many they are.
func TestTicketThatIsNotGivenBack(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	dir := shared(t, "", "")
	synctest.Test(t, func(t *testing.T) {
		var before []*Slot
		for range 5 {
			s, _, err := takeTicket(t.Context(), dir, Info{})
			if err != nil {
				t.Fatal(err)
			}
			before = append(before, s)
		}
		go func() { // all but the last
			for _, s := range before[:4] {
				time.Sleep(mostHeld - time.Minute)
				if err := s.Release(); err != nil {
					t.Error(err)
				}
			}
		}()
		var text bytes.Buffer
		q := &Queue{Dir: dir, Log: slog.New(slog.NewTextHandler(&text, nil))}
		for i, want := range []time.Duration{4*(mostHeld-time.Minute) + mostHeld, 0} {
			start := time.Now()
			s, err := q.Acquire(t.Context(), Info{}, func(Waiting) {})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < want || took > want+time.Second {
				t.Errorf("crawl %d has waited for %v, want %v", i, took, want)
			}
			if n := strings.Count(text.String(), "level=WARN"); n != i+1 {
				t.Errorf("crawl %d: %d warnings: %s", i, n, &text)
			}
			if err := s.Release(); err != nil {
				t.Error(err)
			}
		}
		if err := before[4].Release(); err != nil {
			t.Error(err)
		}
	})
}
