//go:build unix

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/testweb"
)

// A run that cannot end, here because the log is not read that it writes to standard error, is gone after a second signal too. What
// it had committed is there.
func TestInterruptedTwiceWhileStuck(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Config{Pages: 30})
	dir := filepath.Join(t.TempDir(), "data")
	stderr, fill := unreadPipe(t)
	args := []string{"crawl", "--start-url", web.StartURLs()[0], "--resolve", web.Resolve(), "--data-dir", dir, "--profile", "own-site", "--timeout", "1h"}
	web.Hold(5)
	p := invocation{args: args, stderr: stderr}.start(t)
	p.until("requests are in flight that get no answer", func() bool { return pages(web) > 5 })
	fill() // so that the first signal, which is logged, leaves it stuck
	if got := p.signalUntilEnded(os.Interrupt); got.code != 130 {
		t.Errorf("exit status %d, want 130", got.code)
	}
	if exists(t, dir, "report.json") {
		t.Error("it was not stuck")
	}
	web.Release()
	ended(t, run(t, "resume", "--data-dir", dir), dir, 0, "complete", "")
	foundExactly(t, web, testweb.Crawl{}, readLines(t, dir))
}

// unreadPipe is a pipe for a process to write to that is not read. Fill fills it, whatever its size: what is written after that waits
// for ever. Both ends for writing are opened by themselves, so that only the process's own waits.
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
	full := open(os.O_WRONLY | syscall.O_NONBLOCK)
	return end, func() {
		t.Helper()
		if err := full.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := full.Write(make([]byte, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d bytes into a pipe that is not read: %v", n, err)
		}
	}
}
