package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/disk"
	"github.com/mapwright/mapwright/internal/page"
)

// consoleLines says which lines of a log go to standard error.
type consoleLines int

const (
	everyLine    consoleLines = iota
	warningsOnly              // and errors; a log file that a setting names does not change that
	noLine                    // as under a live view
)

// runLog is the log of one run. It goes to a file in the data directory and, unless a live view is drawn there, to
// standard error. A setting can name another file, which then gets the log alone. The data directory does not exist
// before the crawl does, so lines for the file are held until openIn.
type runLog struct {
	*slog.Logger
	warnings atomic.Int64 // lines at warn and above
	path     string       // of its file; empty if there is none. Written before the log is shared
	stderr   io.Writer
	lines    consoleLines

	mu      sync.Mutex
	console io.Writer    // guarded by mu; standard error, or nil if the log goes to the file alone
	file    *os.File     // guarded by mu; nil if there is none
	holding bool         // guarded by mu; lines are held for a file that is still to be opened
	held    bytes.Buffer // guarded by mu
}

// newLogger makes the log by the settings.
func newLogger(io stdio, s *config.Settings, lines consoleLines) (*runLog, error) {
	l := &runLog{stderr: io.err, lines: lines, holding: true}
	if lines == everyLine {
		l.console = io.err
	}
	if s.LogFile != "" {
		// Its user chose the file: it may be a link, a pipe or a device.
		f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			err = l.use(f)
		}
		if err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
		l.console = nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, err
	}
	handler := logHandler(l, level, s.LogFormat, &l.warnings)
	if lines == warningsOnly {
		handler = slog.NewMultiHandler(handler, logHandler(page.EscapingWriter{Writer: io.err},
			max(level, slog.LevelWarn), s.LogFormat, new(atomic.Int64)))
	}
	l.Logger = slog.New(handler)
	return l, nil
}

// logHandler writes lines in a format: json, or else text. It counts those at warn and above.
func logHandler(out io.Writer, level slog.Leveler, format string, warnings *atomic.Int64) slog.Handler {
	show := roundDuration
	if format == "json" {
		show = durationInSeconds
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if at, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && at >= slog.LevelWarn {
			warnings.Add(1)
		}
		return show(a)
	}}
	if format == "json" {
		return slog.NewJSONHandler(out, o)
	}
	return slog.NewTextHandler(out, o)
}

// roundDuration shortens a duration for a text log: 4.005s instead of 4.004788993s.
func roundDuration(a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		unit := time.Millisecond
		if a.Value.Duration().Abs() < 10*time.Millisecond {
			unit = time.Microsecond
		}
		a.Value = slog.DurationValue(a.Value.Duration().Round(unit))
	}
	return a
}

// durationInSeconds makes a duration a number of seconds, and says so in its name. The library would write nanoseconds.
func durationInSeconds(a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// Write takes a line of the log.
func (l *runLog) Write(line []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, text := len(line), page.AppendEscaped(nil, line) // parts of it come from servers
	switch {
	case l.file != nil:
		_, err = l.file.Write(text)
	case l.holding:
		_, err = l.held.Write(text)
	}
	if l.console != nil {
		_, err = l.console.Write(text)
	}
	return n, err
}

// use makes the log go to a file, which it closes at its end.
func (l *runLog) use(f *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path, l.file, l.holding = f.Name(), f, false
	_, err := l.held.WriteTo(f)
	return err
}

// openIn opens the log's file in the data directory, unless a setting named another. If that fails, the log goes to
// standard error alone.
func (l *runLog) openIn(path string) {
	if l.path != "" {
		return
	}
	f, err := disk.OpenAppend(path)
	if err == nil {
		err = l.use(f)
	}
	if err != nil {
		l.toStderr()
		l.Warn("the log goes to standard error only, because its file cannot be opened", "error", err)
	}
}

// toStderr ends the wait for a file. Lines that standard error has not had yet go there.
func (l *runLog) toStderr() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holding && l.console == nil && l.lines != warningsOnly {
		l.console = l.stderr
		_, _ = l.held.WriteTo(l.console) // there is no other place to report a failure
	}
	l.holding = false
	l.held.Reset()
}

// close ends the log. If lines are still held, the crawl did not begin, and they go to standard error.
func (l *runLog) close() {
	l.toStderr()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close() // every line was written when it came
		if l.file = nil; l.lines != warningsOnly {
			l.console = l.stderr
		}
	}
}
