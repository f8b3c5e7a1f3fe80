package state

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// The tests of crashes start this test binary again as a child that writes to
// a store, and kill or stop it at any moment. What a child does is in
// childEnv; where, in childDir.
const (
	childEnv  = "STATE_TEST_CHILD"
	childDir  = "STATE_TEST_DIR"
	childSeed = "STATE_TEST_SEED"
)

func runChild(name string) {
	dir := os.Getenv(childDir)
	var err error
	switch name {
	case "write", "append":
		o := small()
		if name == "append" {
			// The log is kept, and Badger is made durable seldom.
			o.CheckpointBytes, o.SyncBytes, o.SyncInterval = 1<<40, 1<<20, time.Hour
		}
		var seed uint64
		if seed, err = strconv.ParseUint(os.Getenv(childSeed), 10, 64); err == nil {
			err = childWrite(dir, o, seed)
		}
	case "recrawl":
		err = childRecrawl(dir)
	case "hold":
		err = childHold(dir)
	case "fill":
		err = childFill(dir)
	default:
		err = fmt.Errorf("unknown child %q", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childWrite goes on with the records of a model for ever, making checkpoints
// meanwhile, and prints how many are durable.
func childWrite(dir string, o Options, seed uint64) error {
	ctx := context.Background()
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	m := newModel(seed)
	n, _ := strconv.Atoi(string(s.Facts()["n"]))
	for m.n < n {
		m.record()
	}
	fmt.Println(m.n)
	var mu sync.Mutex // guards the model's keys against the checkpoints
	failed := make(chan error)
	go func() {
		for range s.CheckpointDue() {
			if err := s.Checkpoint(ctx, func(w *SnapshotWriter) error { return saveKeys(w, m, &mu) }); err != nil {
				failed <- err
			}
		}
	}()
	for {
		select {
		case err := <-failed:
			return err
		default:
		}
		if err := s.Ready(ctx); err != nil {
			return err
		}
		mu.Lock()
		r := m.record()
		_, err := s.Commit(r)
		mu.Unlock()
		if err != nil {
			return err
		}
		if m.n%31 == 0 {
			if err := childCursor(s, m); err != nil {
				return err
			}
		}
		if m.n%50 == 0 {
			if err := s.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(m.n)
		}
	}
}

// childCursor commits how much of a host's queue is finished.
func childCursor(s *Store, m *model) error {
	h := m.hasher.HostID(fmt.Sprintf("h%d.example", m.n%12))
	links, at, err := s.Pending(context.Background(), h, frontier.Cursor{}, 1)
	if err != nil || len(links) == 0 {
		return err
	}
	if at.Index == 0 {
		at.Position, at.Index = at.Position-1, ^uint32(0)
	} else {
		at.Index--
	}
	_, err = s.Commit(frontier.Record{Cursors: []frontier.HostCursor{{Host: h, Low: at}}})
	return err
}

// saveKeys saves the keys of all links that were committed.
func saveKeys(w *SnapshotWriter, m *model, mu *sync.Mutex) error {
	mu.Lock()
	var b []byte
	for k := range m.links {
		b = k.Append(b)
	}
	mu.Unlock()
	if !w.Keep("sealed") {
		if err := w.Put("sealed", 7, func(w io.Writer) error {
			_, err := w.Write(binary.BigEndian.AppendUint64(nil, modelSeed))
			return err
		}); err != nil {
			return err
		}
	}
	return w.Put("keys", 1, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// checkSnapshots checks that what was saved, brought up to date from the log,
// is the set of all keys.
func checkSnapshots(t *testing.T, s *Store) {
	t.Helper()
	snaps, at := s.Snapshots()
	if at == 0 {
		return
	}
	keys := map[weburl.Key]bool{}
	for _, snap := range snaps {
		err := s.ReadSnapshot(snap, func(r io.Reader) error {
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if snap.Name == "sealed" {
				if snap.Version != 7 || binary.BigEndian.Uint64(b) != modelSeed {
					t.Errorf("sealed snapshot has version %d and content %x", snap.Version, b)
				}
				return nil
			}
			for ; len(b) > 0; b = b[weburl.KeySize:] {
				k, _ := weburl.ParseKey(b[:weburl.KeySize])
				keys[k] = true
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for k, err := range s.KeysSince(context.Background(), at) {
		if err != nil {
			t.Fatal(err)
		}
		keys[k] = true
	}
	for k, err := range s.Keys(context.Background(), 0, 255) {
		if err != nil {
			t.Fatal(err)
		}
		if !keys[k] {
			t.Errorf("key %v is neither in the snapshot nor in the log after it", k)
		}
	}
}

// A child is a process that writes to a store.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	stderr strings.Builder
}

func startChild(t *testing.T, name, dir string, seed uint64) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe), lines: make(chan string, 1<<16)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+name, childDir+"="+dir, childSeed+"="+strconv.FormatUint(seed, 10))
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cmd.StdinPipe(); err != nil { // open until Wait
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.drain()
	})
	return c
}

// drain reads what is left of the child's output and waits for its end. It
// returns the last line.
func (c *child) drain() (last string) {
	for line := range c.lines {
		last = line
	}
	c.cmd.Wait()
	return last
}

// line returns the next line of the child's output.
func (c *child) line() string {
	c.t.Helper()
	line, ok := <-c.lines
	if !ok {
		c.cmd.Wait()
		c.t.Fatalf("child ended: %s", c.stderr.String())
	}
	return line
}

// kill ends the child at once and returns how many records it had said are
// durable, given what it said before.
func (c *child) kill(acked int) int {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	if last := c.drain(); last != "" {
		acked = atoi(c.t, last)
	}
	if c.stderr.Len() > 0 {
		c.t.Fatalf("child said: %s", c.stderr.String())
	}
	return acked
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
