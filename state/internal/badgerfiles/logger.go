package badgerfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mapwright/mapwright/internal/disk"
)

// A logger receives what Badger logs. Badger only logs some errors after which it must not be used any more; fail is
// called with them.
type logger struct {
	log  *slog.Logger
	fail func(error)
	dir  string // Badger's directory

	mu  sync.Mutex
	err error // guarded by mu; the first error
}

func (l *logger) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *logger) note(format string, args []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	err := errors.New("badger: " + text)
	if damage := valueDamage(l.dir, text); damage != nil {
		err = damage
	}
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.fail(err)
}

// valueDamage finds out from what Badger logs which value log a value could not
// be read from: it names the place of a value as {Fid:1 Len:2 Offset:3}, and a
// missing file by its number. Reading the value returns no error and an empty
// value.
func valueDamage(dir, text string) error {
	var id, length, offset uint32
	reason := ""
	if at := strings.Index(text, "{Fid:"); at >= 0 {
		if _, err := fmt.Sscanf(text[at:], "{Fid:%d Len:%d Offset:%d}", &id, &length, &offset); err == nil {
			reason = fmt.Sprintf("the value of %d bytes at offset %d does not match its checksum", length, offset)
		}
	} else if at := strings.LastIndex(text, "file with ID: "); at >= 0 {
		if _, err := fmt.Sscanf(text[at:], "file with ID: %d not found", &id); err == nil {
			reason = "it is missing"
		}
	}
	if reason == "" {
		return nil
	}
	return &disk.CorruptError{What: filepath.Join(dir, fmt.Sprintf("%06d.vlog", id)), Reason: reason}
}

// Errorf implements badger.Logger.
func (l *logger) Errorf(format string, args ...any) { l.note(format, args) }

// Warningf implements badger.Logger. A compaction that fails is a warning to
// Badger; it would be tried again until writes stall for good.
func (l *logger) Warningf(format string, args ...any) {
	if strings.Contains(format, "doCompact") {
		l.note(format, args)
		return
	}
	l.log.Debug("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof implements badger.Logger. It drops the lines, which are many.
func (l *logger) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (l *logger) Debugf(string, ...any) {}
