package crawl

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/words"
	"github.com/mapwright/mapwright/state"
)

// warnings are the lines that the report shows as warnings: those of all runs of the generation, each once, oldest
// first. The list is bounded. Each line is a fact of the crawl, so that the report of a later run has it too.
type warnings struct {
	log *slog.Logger

	mu    sync.Mutex
	store *state.Store // guarded by mu; nil until keep is called
	// owned returns the partitions that this machine has, in a crawl of several. Only save calls it: a caller of add
	// may hold locks of the frontier. Nil means one machine, and all facts go to partition 0, at once. Set before use.
	owned func() []uint8
	since string   // stored warnings of earlier times are of another generation; a time as in facts. Set before use
	list  []string // guarded by mu
	saved int      // guarded by mu; how many lines of list are recorded
}

// maxWarnings bounds the report's list, maxWarning one line of it, in bytes: a line can contain a URL of any length.
const (
	maxWarnings = 200
	maxWarning  = 1000
	noMore      = "there are more warnings: they are in the log only"
)

// add logs a line and adds it to the report's warnings.
func (w *warnings) add(format string, args ...any) {
	text := words.Shorten(fmt.Sprintf(format, args...), maxWarning)
	defer w.log.Warn(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appendLocked(text)
	if w.owned == nil {
		w.saveLocked(0)
	}
}

func (w *warnings) appendLocked(text string) {
	if len(w.list) == maxWarnings || slices.Contains(w.list, text) {
		return
	}
	if len(w.list) == maxWarnings-1 {
		text = noMore
	}
	w.list = append(w.list, text)
}

// keep puts the lines of earlier runs before those of this one. From now on all lines are recorded in the store.
func (w *warnings) keep(store *state.Store) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.list
	w.store, w.list = store, nil
	for _, text := range storedWarnings(store.Facts(), w.since) {
		w.appendLocked(text)
	}
	w.saved = len(w.list)
	for _, text := range own {
		w.appendLocked(text)
	}
	if w.owned == nil {
		w.saveLocked(0)
	}
}

// save records the lines that add has not recorded, in a crawl of several machines.
func (w *warnings) save() {
	if w.owned == nil {
		return
	}
	owned := w.owned()
	if len(owned) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saveLocked(owned[0])
}

// saveLocked records the lines that are not recorded yet. An error of the store is reported where pages are recorded.
func (w *warnings) saveLocked(partition uint8) {
	if w.store == nil || w.saved == len(w.list) {
		return
	}
	var facts []frontier.CrawlFact
	now := time.Now().UTC()
	for i, text := range w.list[w.saved:] {
		at := now.Add(time.Duration(i)) // keeps their order
		facts = append(facts, frontier.CrawlFact{Partition: partition, Name: factWarning + text,
			Value: at.AppendFormat(nil, factTime)})
	}
	if _, err := w.store.Commit(frontier.Record{Facts: facts}); err == nil {
		w.saved = len(w.list)
	}
}

// all returns the lines so far, with those that other machines have recorded.
func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owned != nil {
		for _, text := range storedWarnings(w.store.Facts(), w.since) {
			w.appendLocked(text)
		}
	}
	return slices.Clone(w.list)
}

// storedWarnings are the lines that were recorded since a time, oldest first.
func storedWarnings(facts map[string][]byte, since string) []string {
	type line struct{ at, text string }
	var list []line
	for name, at := range facts {
		if text, ok := strings.CutPrefix(name, factWarning); ok && string(at) >= since {
			list = append(list, line{string(at), text})
		}
	}
	slices.SortFunc(list, func(a, b line) int { return strings.Compare(a.at+a.text, b.at+b.text) })
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].text
	}
	return texts
}
