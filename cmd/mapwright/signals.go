package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// onSignals listens for SIGINT, SIGTERM and SIGHUP, which comes when a terminal is closed: the first closes interrupted, the second
// cancels the context. Call stop when the crawl is over.
func onSignals(ctx context.Context, log *slog.Logger) (_ context.Context, stop func(), interrupted <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			log.Info("interrupted; once more leaves at once", "signal", s.String())
			close(first)
		case <-ended:
			return
		}
		select {
		case <-signals:
			cancel()
		case <-ended:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
	}, first
}
