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

// patience is how long one run of the program may take, on a machine that is busy with other things. Only a test that
// fails waits for it.
const patience = 15 * time.Minute

// invocation is the program about to be run.
type invocation struct {
	args  []string
	env   []string // beyond the bare minimum; the later of two counts
	stdin string
	dir   string        // to run in; empty means a new temporary one
	limit time.Duration // how long it may take. Zero means patience
	files int           // its limit of open files. Zero means that of the test
	under []string      // a command that runs the program, whose arguments follow
	quiet bool          // a test that fails does not show what it wrote

	stderr *os.File // where standard error goes; nil means to the test
}

// result is what a run of the program left.
type result struct {
	code           int // 0 to 255; -1 if a signal ended it
	stdout, stderr string
	took           time.Duration
}

// process is the program while it runs.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	cancel   context.CancelFunc
	began    time.Time
	out, err buffer
	done     chan struct{} // closed when ended is set
	ended    result
}

// run runs the program to its end.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return invocation{args: args}.run(t)
}

// start runs the program beside the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return invocation{args: args}.start(t)
}

func (i invocation) run(t *testing.T) result {
	t.Helper()
	return i.start(t).wait()
}

func (i invocation) start(t *testing.T) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(i.limit, patience))
	p := &process{t: t, cancel: cancel, began: time.Now(), done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, binary, i.args...)
	if i.files > 0 {
		p.cmd = exec.CommandContext(ctx, "sh", append([]string{"-c",
			fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, i.files), binary}, i.args...)...)
	}
	if len(i.under) > 0 {
		p.cmd = exec.CommandContext(ctx, i.under[0], slices.Concat(i.under[1:], []string{binary}, i.args)...)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(i.stdin), &p.out, &p.err
	if i.stderr != nil {
		p.cmd.Stderr = i.stderr
	}
	p.cmd.Dir = i.dir
	if i.dir == "" {
		p.cmd.Dir = t.TempDir()
	}
	p.cmd.Env = append(bareEnv(t, p.cmd.Dir), i.env...)
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go p.reap()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && !i.quiet {
			t.Logf("mapwright %s\nexit status %d\nstdout:\n%s\nstderr:\n%s", strings.Join(i.args, " "), p.ended.code,
				p.ended.stdout, p.ended.stderr)
		}
	})
	return p
}

// bareEnv is an environment without the settings of the user who runs the tests. Its directory for temporary files is
// new, so that tests do not queue for each other's safe crawls.
func bareEnv(t *testing.T, home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir()}
}

// reap takes leave of the process.
func (p *process) reap() {
	defer close(p.done)
	defer p.cancel()
	_ = p.cmd.Wait() // how it ended is in its state
	p.ended = result{code: p.cmd.ProcessState.ExitCode(), stdout: p.out.String(), stderr: p.err.String(),
		took: time.Since(p.began)}
}

// wait waits for the end.
func (p *process) wait() result {
	p.t.Helper()
	<-p.done
	if strings.Contains(p.ended.stderr, "DATA RACE") {
		p.t.Error("the program has a data race")
	}
	return p.ended
}

// signal sends a signal. That the process is gone by then is no error.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// signalUntilEnded sends a signal again and again until the process has ended: signals within a second of the first
// count as one.
func (p *process) signalUntilEnded(s os.Signal) result {
	p.t.Helper()
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		p.signal(s)
		select {
		case <-p.done:
			return p.wait()
		case <-again.C:
		}
	}
}

// kill ends the process as a power cut would end it.
func (p *process) kill() result {
	p.signal(syscall.SIGKILL)
	return p.wait()
}

// settle makes durable what the program has recorded of its crawl so far: an export begins with that. The crawl may end
// meanwhile.
func (p *process) settle(dir string) {
	p.t.Helper()
	if got := run(p.t, "export", "--data-dir", dir, "--output", p.t.TempDir()); got.code == 0 {
		return
	}
	if got := p.wait(); got.code != 0 { // only a crawl that ends cannot be asked
		p.t.Fatalf("exit status %d, want 0", got.code)
	}
}

// pid is the process's number.
func (p *process) pid() int { return p.cmd.Process.Pid }

// until waits until something is so. It gives up when the process ends first, or takes too long.
func (p *process) until(what string, so func() bool) {
	p.t.Helper()
	if !p.untilEnded(so) {
		p.t.Fatalf("the program ended, or took too long, before %s", what)
	}
}

// untilEnded waits until something is so or the process has ended, and says whether it is so.
func (p *process) untilEnded(so func() bool) bool {
	look, late := time.NewTicker(time.Millisecond), time.After(patience/2)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-p.done:
			return so()
		case <-late:
			return false
		}
	}
	return true
}

// says waits until the program has written a text to standard error.
func (p *process) says(text string) {
	p.t.Helper()
	p.until("it said "+text, func() bool { return strings.Contains(p.err.String(), text) })
}

// buffer takes what a process writes while the test reads.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
