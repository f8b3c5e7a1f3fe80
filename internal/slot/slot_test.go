package slot

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func acquire(t *testing.T, ctx context.Context, dir, url string, onWait func(Waiting)) *Slot {
	t.Helper()
	s, err := acquireIn(ctx, dir, nil, Info{PID: os.Getpid(), StartURL: url}, onWait)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noWait(t *testing.T) func(Waiting) {
	return func(w Waiting) { t.Errorf("waits for %+v", w) }
}

func TestFirstComeFirstServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slot")
	ctx := t.Context()
	first := acquire(t, ctx, dir, "u0", noWait(t))

	const n = 5
	order := make(chan int, n)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	for i := range n {
		waiting := make(chan Waiting, 2*n)
		waiters.Go(func() {
			s, err := acquireIn(ctx, dir, nil, Info{StartURL: "later"}, func(w Waiting) { waiting <- w })
			if err != nil {
				t.Error(err)
				order <- -1
				return
			}
			order <- i
			if err := s.Release(); err != nil {
				t.Error(err)
			}
		})
		if w := <-waiting; w.Ahead != i+1 || w.Owner.StartURL != "u0" {
			t.Errorf("waiter %d is told %+v", i, w)
		}
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := <-order; got != i {
			t.Errorf("turn %d went to waiter %d", i, got)
		}
	}
}

func TestInterruptedWaiterLeavesTheQueue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slot")
	first := acquire(t, t.Context(), dir, "u0", noWait(t))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := acquireIn(ctx, dir, nil, Info{}, func(Waiting) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, t.Context(), dir, "u2", noWait(t)).Release(); err != nil {
		t.Fatal(err)
	}
	if left, err := tickets(dir); err != nil || len(left) != 0 {
		t.Errorf("tickets left behind: %v %v", left, err)
	}
}

// A process of its own takes the slot and is killed: the next one gets it, and the ticket is cleared away.
func TestCrashedOwnerIsPassedOver(t *testing.T) {
	if os.Getenv("SLOT_DIR") != "" {
		held := acquire(t, t.Context(), os.Getenv("SLOT_DIR"), "crashed", func(Waiting) {})
		os.Stdout.WriteString("held\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed
		runtime.KeepAlive(held)
		return
	}
	dir := filepath.Join(t.TempDir(), "slot")
	owner := exec.Command(os.Args[0], "-test.run=^TestCrashedOwnerIsPassedOver$")
	owner.Env = append(os.Environ(), "SLOT_DIR="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.StdinPipe(); err != nil { // open until Wait
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	var told []Waiting
	s := acquire(t, t.Context(), dir, "next", func(w Waiting) {
		told = append(told, w)
		if err := owner.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	owner.Wait()
	if len(told) != 1 || told[0].Owner.StartURL != "crashed" {
		t.Errorf("was told %+v", told)
	}
	if left, err := tickets(dir); err != nil || len(left) != 1 {
		t.Errorf("tickets: %v %v, want only ours", left, err)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
}
