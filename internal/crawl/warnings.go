package crawl

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/mapwright/mapwright/internal/words"
)

// warnings are the lines that the report shows as warnings. The list is bounded.
type warnings struct {
	log *slog.Logger

	mu   sync.Mutex
	list []string // guarded by mu
}

// maxWarnings bounds the report's list, maxWarning one line of it, in bytes: a line can contain a URL of any length.
const (
	maxWarnings = 200
	maxWarning  = 1000
)

// add adds a line to the report's warnings, and logs it.
func (w *warnings) add(format string, args ...any) {
	text := words.Shorten(fmt.Sprintf(format, args...), maxWarning)
	w.log.Warn(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) < maxWarnings {
		w.list = append(w.list, text)
	}
}

// all returns the lines so far.
func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}
