package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/config"
)

// runLog is the log of one run. Under a live view it goes to a file in the data directory, unless a setting names another: never
// into the picture. That directory is not there before the crawl is, so what is logged until then is held.
type runLog struct {
	*slog.Logger
	warnings atomic.Int64 // lines at warn and above
	path     string       // of its file; empty if it goes to standard error. Written before the log is shared
	stderr   io.Writer

	mu   sync.Mutex
	to   io.Writer    // guarded by mu; nil while lines are held
	held bytes.Buffer // guarded by mu
	file *os.File     // guarded by mu; nil if there is none
}

// newLogger makes the log by the settings. With hold it is held until moveTo.
func newLogger(io stdio, s *config.Settings, hold bool) (*runLog, error) {
	l := &runLog{stderr: io.err, to: io.err}
	switch {
	case s.LogFile != "":
		if err := l.open(s.LogFile); err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
	case hold:
		l.to = nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(l, o)
	if s.LogFormat == "json" {
		h = slog.NewJSONHandler(l, o)
	}
	l.Logger = slog.New(counting{h, &l.warnings})
	return l, nil
}

// Write takes a line of the log.
func (l *runLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return l.held.Write(line)
	}
	return l.to.Write(line)
}

// open makes the log go to a file.
func (l *runLog) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path, l.file = path, f
	l.releaseLocked(f)
	return nil
}

// moveTo ends the hold: the log goes to a file from now on, or, where that cannot be had, to standard error after all.
func (l *runLog) moveTo(path string) {
	if l.path != "" {
		return
	}
	if err := l.open(path); err != nil {
		l.release()
		l.Warn("no live view: its log cannot be opened", "error", err)
	}
}

// release ends the hold without a file.
func (l *runLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		l.releaseLocked(l.stderr)
	}
}

func (l *runLog) releaseLocked(to io.Writer) {
	_, _ = l.held.WriteTo(to) // nobody could be told
	l.to = to
}

// close ends the log. What is still held belongs to a crawl that did not begin.
func (l *runLog) close() {
	l.release()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close() // every line was written when it came
		l.file, l.to = nil, l.stderr
	}
}

// counting counts warnings on their way to a handler.
type counting struct {
	slog.Handler
	warnings *atomic.Int64
}

// Handle implements [slog.Handler].
func (c counting) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.warnings.Add(1)
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.warnings}
}

// WithGroup implements [slog.Handler].
func (c counting) WithGroup(name string) slog.Handler {
	return counting{c.Handler.WithGroup(name), c.warnings}
}
