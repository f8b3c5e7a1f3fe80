package commands

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// terminal is the program in a terminal, as a user sees it.
type terminal struct {
	t      *testing.T
	file   *os.File // the keyboard
	cmd    *exec.Cmd
	out    e2e.Buffer    // standard output, if it goes elsewhere
	ended  chan struct{} // closed when the program is gone and all that it wrote has been seen
	cancel context.CancelFunc

	mu     sync.Mutex
	screen *screen      // guarded by mu
	wrote  bytes.Buffer // guarded by mu; everything that came
}

// sitting is a program about to be run in a terminal.
type sitting struct {
	cols, rows int
	env        []string // beyond the usual
	redirected bool     // standard output goes elsewhere
	program    string   // instead of the one under test
}

func (s sitting) start(t *testing.T, args ...string) *terminal {
	t.Helper()
	if s.cols == 0 {
		s.cols, s.rows = 80, 24
	}
	if s.program == "" {
		s.program = e2e.Binary
	}
	ctx, cancel := context.WithTimeout(context.Background(), e2e.Patience)
	term := &terminal{t: t, cmd: exec.CommandContext(ctx, s.program, args...), cancel: cancel,
		ended: make(chan struct{}), screen: newScreen(s.cols, s.rows)}
	term.cmd.Dir = t.TempDir()
	term.cmd.Env = append(append(e2e.BareEnv(t, term.cmd.Dir), "TERM=xterm-256color", "LANG=C.UTF-8"), s.env...)
	if s.redirected {
		term.cmd.Stdout = &term.out
	}
	file, err := pty.StartWithSize(term.cmd, &pty.Winsize{Cols: uint16(s.cols), Rows: uint16(s.rows)})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	term.file = file
	go term.watch()
	t.Cleanup(func() {
		cancel()
		<-term.ended
		_ = file.Close()
		if len(term.screen.strange) > 0 {
			t.Errorf("the program did strange things to the terminal: %q", term.screen.strange)
		}
		if strings.Contains(term.wrote.String(), "DATA RACE") {
			t.Error("the program has a data race")
		}
		if t.Failed() {
			t.Logf("%s\nexit status %d\nthe screen:\n%s\nall that came:\n%q", strings.Join(args, " "),
				term.cmd.ProcessState.ExitCode(), term.screen, tail(term.wrote.String(), 4000))
		}
	})
	return term
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// watch looks at the screen until the program is gone.
func (t *terminal) watch() {
	defer close(t.ended)
	defer t.cancel()
	buf := make([]byte, 64<<10)
	for {
		n, err := t.file.Read(buf)
		t.mu.Lock()
		t.wrote.Write(buf[:n])
		_, _ = t.screen.Write(buf[:n])
		t.mu.Unlock()
		if err != nil {
			break // a terminal that is no longer open is an error to read
		}
	}
	_ = t.cmd.Wait() // how it ended is in its state
}

// sees waits until the screen is as it should be. It gives up when the program ends first.
func (t *terminal) sees(what string, so func(*screen) bool) {
	t.t.Helper()
	look := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return so(t.screen)
	}
	tick, late := time.NewTicker(5*time.Millisecond), time.After(e2e.Patience/2)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-t.ended:
			if !look() {
				t.t.Fatalf("the program ended before the screen showed %s", what)
			}
			return
		case <-late:
			t.t.Fatalf("the screen never showed %s", what)
		}
	}
}

// shows waits until all of some texts show at once.
func (t *terminal) shows(texts ...string) {
	t.t.Helper()
	t.sees(strings.Join(texts, ", "), func(s *screen) bool {
		all := s.String()
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return false
			}
		}
		return true
	})
}

// types presses keys.
func (t *terminal) types(keys string) {
	t.t.Helper()
	if _, err := io.WriteString(t.file, keys); err != nil {
		t.t.Fatal(err)
	}
}

// typesUntilEnded presses keys again and again until the program has ended, and returns its exit status: signals within
// a second of the first count as one.
func (t *terminal) typesUntilEnded(keys string) int {
	t.t.Helper()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := io.WriteString(t.file, keys); err != nil {
			return t.wait() // a terminal whose program has ended takes nothing
		}
		select {
		case <-t.ended:
			return t.wait()
		case <-again.C:
		}
	}
}

// resize makes the window another size.
func (t *terminal) resize(cols, rows int) {
	t.t.Helper()
	t.mu.Lock()
	t.screen.resize(cols, rows)
	t.mu.Unlock()
	if err := pty.Setsize(t.file, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		t.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit status.
func (t *terminal) wait() int {
	<-t.ended
	return t.cmd.ProcessState.ExitCode()
}

// all is everything that came, as it came.
func (t *terminal) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrote.String()
}
