package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long one run of the program may take, on a machine that is busy with other things. Only a test that
// fails waits for it.
const Patience = 15 * time.Minute

// Invocation is the program about to be run.
type Invocation struct {
	Args  []string
	Env   []string // beyond the bare minimum; the later of two counts
	Stdin string
	Dir   string        // to run in; empty means a new temporary one
	Limit time.Duration // how long it may take. Zero means patience
	Files int           // its limit of open files. Zero means that of the test
	Under []string      // a command that runs the program, whose arguments follow
	Quiet bool          // a test that fails does not show what it wrote

	Stderr *os.File // where standard error goes; nil means to the test
}

// Result is what a run of the program left.
type Result struct {
	Code           int // 0 to 255; -1 if a signal ended it
	Stdout, Stderr string
	Took           time.Duration
}

// Process is the program while it runs.
type Process struct {
	t        *testing.T
	Cmd      *exec.Cmd
	cancel   context.CancelFunc
	Began    time.Time
	out, Err Buffer
	Done     chan struct{} // closed when ended is set
	ended    Result
}

// Run runs the program to its end.
func Run(t *testing.T, args ...string) Result {
	t.Helper()
	return Invocation{Args: args}.Run(t)
}

// Start runs the program beside the test.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	return Invocation{Args: args}.Start(t)
}

// Run runs the program to its end.
func (i Invocation) Run(t *testing.T) Result {
	t.Helper()
	return i.Start(t).Wait()
}

// Start runs the program beside the test, which kills it at its end.
func (i Invocation) Start(t *testing.T) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(i.Limit, Patience))
	p := &Process{t: t, cancel: cancel, Began: time.Now(), Done: make(chan struct{})}
	p.Cmd = exec.CommandContext(ctx, Binary, i.Args...)
	if i.Files > 0 {
		p.Cmd = exec.CommandContext(ctx, "sh", append([]string{"-c",
			fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, i.Files), Binary}, i.Args...)...)
	}
	if len(i.Under) > 0 {
		p.Cmd = exec.CommandContext(ctx, i.Under[0], slices.Concat(i.Under[1:], []string{Binary}, i.Args)...)
	}
	p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = strings.NewReader(i.Stdin), &p.out, &p.Err
	if i.Stderr != nil {
		p.Cmd.Stderr = i.Stderr
	}
	p.Cmd.Dir = i.Dir
	if i.Dir == "" {
		p.Cmd.Dir = t.TempDir()
	}
	p.Cmd.Env = append(BareEnv(t, p.Cmd.Dir), i.Env...)
	if err := p.Cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go p.reap()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() && !i.Quiet {
			t.Logf("mapwright %s\nexit status %d\nstdout:\n%s\nstderr:\n%s", strings.Join(i.Args, " "), p.ended.Code,
				p.ended.Stdout, p.ended.Stderr)
		}
	})
	return p
}

// BareEnv is an environment without the settings of the user who runs the tests. Its directory for temporary files is
// new, so that tests do not queue for each other's safe crawls.
func BareEnv(t *testing.T, home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir()}
}

// reap takes leave of the process.
func (p *Process) reap() {
	defer close(p.Done)
	defer p.cancel()
	_ = p.Cmd.Wait() // how it ended is in its state
	p.ended = Result{Code: p.Cmd.ProcessState.ExitCode(), Stdout: p.out.String(), Stderr: p.Err.String(),
		Took: time.Since(p.Began)}
}

// Wait waits for the end.
func (p *Process) Wait() Result {
	p.t.Helper()
	<-p.Done
	if strings.Contains(p.ended.Stderr, "DATA RACE") {
		p.t.Error("the program has a data race")
	}
	return p.ended
}

// Signal sends a signal. That the process is gone by then is no error.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// SignalUntilEnded sends a signal again and again until the process has ended: signals within a second of the first
// count as one.
func (p *Process) SignalUntilEnded(s os.Signal) Result {
	p.t.Helper()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		p.Signal(s)
		select {
		case <-p.Done:
			return p.Wait()
		case <-again.C:
		}
	}
}

// Kill ends the process as a power cut would end it.
func (p *Process) Kill() Result {
	p.Signal(syscall.SIGKILL)
	return p.Wait()
}

// Settle makes durable what the program has recorded of its crawl so far: an export begins with that. The crawl may end
// meanwhile.
func (p *Process) Settle(dir string) {
	p.t.Helper()
	if got := Run(p.t, "export", "--data-dir", dir, "--output", p.t.TempDir()); got.Code == 0 {
		return
	}
	if got := p.Wait(); got.Code != 0 { // only a crawl that ends cannot be asked
		p.t.Fatalf("exit status %d, want 0", got.Code)
	}
}

// Out is what the program has written to standard output so far.
func (p *Process) Out() string { return p.out.String() }

// Pid is the process's number.
func (p *Process) Pid() int { return p.Cmd.Process.Pid }

// Until waits until something is so. It gives up when the process ends first, or takes too long.
func (p *Process) Until(what string, so func() bool) {
	p.t.Helper()
	if !p.UntilEnded(so) {
		p.t.Fatalf("the program ended, or took too long, before %s", what)
	}
}

// UntilEnded waits until something is so or the process has ended, and says whether it is so.
func (p *Process) UntilEnded(so func() bool) bool {
	look, late := time.NewTicker(time.Millisecond), time.After(Patience/2)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-p.Done:
			return so()
		case <-late:
			return false
		}
	}
	return true
}

// Says waits until the program has written a text to standard error.
func (p *Process) Says(text string) {
	p.t.Helper()
	p.Until("it said "+text, func() bool { return strings.Contains(p.Err.String(), text) })
}

// Buffer takes what a process writes while the test reads.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
