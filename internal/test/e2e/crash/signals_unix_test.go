//go:build unix

package crash

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
	"github.com/mapwright/mapwright/internal/test/testweb"
)

// A run that cannot end, here because the log is not read that it writes to standard error, is gone after a second
// signal too. What it had committed is there.
func TestInterruptedTwiceWhileStuck(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 30})
	dir := filepath.Join(t.TempDir(), "data")
	stderr, fill := unreadPipe(t)
	args := []string{"crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--profile", "own-site", "--timeout", "1h"}
	web.Hold(5)
	p := e2e.Invocation{Args: args, Stderr: stderr}.Start(t)
	p.Until("requests are in flight that get no answer", func() bool { return e2e.Pages(web) > 5 })
	fill() // so that the first signal, which is logged, leaves it stuck
	if got := p.SignalUntilEnded(os.Interrupt); got.Code != 130 {
		t.Errorf("exit status %d, want 130", got.Code)
	}
	if e2e.Exists(t, dir, "report.json") {
		t.Error("it was not stuck")
	}
	web.Release()
	e2e.Ended(t, e2e.Run(t, "resume", "--data-dir", dir), dir, 0, "complete", "")
	e2e.FoundExactly(t, web, testweb.Crawl{}, e2e.ReadLines(t, dir))
}

// Signals that come together count once: timeout(1) sends one to its child and one to the whole process group.
func TestInterruptedOnceBySeveralSignals(t *testing.T) {
	t.Parallel()
	web := e2e.Serve(t, testweb.Config{Pages: 60})
	web.Hold(2)
	dir := filepath.Join(t.TempDir(), "data")
	p := e2e.Start(t, "crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir,
		"--grace",
		"1h", "--timeout", "1h")
	p.Until("a page is in flight", func() bool { return e2e.Pages(web) >= 3 })
	// A process that is stopped gets its signals when it goes on, all at once, however slow this test is.
	for _, sig := range []os.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCONT} {
		p.Signal(sig)
	}
	p.Says("a second signal ends the process at once")
	web.Release()
	e2e.Ended(t, p.Wait(), dir, 130, "cancelled", "interrupted")
}

// unreadPipe is a pipe for a process to write to that is not read. Fill fills it, whatever its size: what is written
// after that waits for ever. Both ends for writing are opened by themselves, so that only the process's own waits.
func unreadPipe(t *testing.T) (end *os.File, fill func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) *os.File {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	open(os.O_RDONLY | syscall.O_NONBLOCK) // without a reader it could not be opened for writing
	end = open(os.O_WRONLY)
	full, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(full) })
	return end, func() {
		t.Helper()
		for size := 1 << 16; size > 0; size /= 2 { // the last byte too, which only a small write takes
			var err error
			for err == nil {
				_, err = syscall.Write(full, make([]byte, size))
			}
			if !errors.Is(err, syscall.EAGAIN) {
				t.Fatalf("a pipe that is not read: %v", err)
			}
		}
	}
}
