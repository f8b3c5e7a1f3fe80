package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mapwright/mapwright/internal/datadir"
)

const (
	// signalPause is how long after the first signal further ones count as the same: timeout(1) signals its child and
	// then the whole process group, microseconds later.
	signalPause = time.Second

	// leaveWithin is how long a run may take to end after the second signal. Then the process exits by itself.
	leaveWithin = 500 * time.Millisecond

	// sayWithin is how long the process then waits for the terminal to be restored and the last message to be written.
	// That takes microseconds, unless no reader takes it or the machine is very busy.
	sayWithin = 2 * time.Second
)

// onSignals listens for SIGINT, SIGTERM and SIGHUP, which comes when a terminal is closed. The first signal calls
// interrupt, the second cancels the context; if the run has not ended soon after that, the process calls exit, which
// must not return. Call stop when the crawl is over.
func onSignals(ctx context.Context, log *slog.Logger, interrupt, exit func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ended := make(chan struct{})
	go takeSteps(signals, ended, func(s os.Signal) {
		interrupt()
		// Whatever reads the log may have stopped reading, and the second signal must not wait for it.
		go log.Info("interrupted; a second signal ends the process at once", "signal", s.String())
	}, cancel, exit)
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
	}
}

// takeSteps calls interrupt at the first signal, leave at the second, and exit when the run does not end after that. It
// returns when the run has ended.
func takeSteps(signals <-chan os.Signal, ended <-chan struct{}, interrupt func(os.Signal), leave, exit func()) {
	select {
	case sig := <-signals:
		interrupt(sig)
	case <-ended:
		return
	}
	for began := time.Now(); ; {
		select {
		case <-signals:
		case <-ended:
			return
		}
		if time.Since(began) >= signalPause {
			break
		}
	}
	leave()
	select {
	case <-time.After(leaveWithin):
		exit()
	case <-ended:
	}
}

// exitNow ends the process although some part of it does not stop. What was committed is in the log, as after a kill.
// Restore gives the terminal back; neither it nor a standard error without a reader can hold the process up.
func exitNow(stderr io.Writer, dir datadir.Dir, restore func()) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		restore()
		fmt.Fprintln(stderr, "mapwright: "+leftAtOnce(dir))
	}()
	select {
	case <-said:
	case <-time.After(sayWithin):
	}
	os.Exit(exitInterrupted)
}

// leftAtOnce says how to go on after a second signal.
func leftAtOnce(dir datadir.Dir) string {
	return fmt.Sprintf("left at once; outputs were not written: '%s' writes them, '%s' goes on", dir.Command("export"),
		dir.Command("resume"))
}
