package crawl

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// The traps, as they are named in records.
const (
	TrapLength   = "url_length"
	TrapRepeats  = "repeated_segments"
	TrapSession  = "session_id"
	TrapParams   = "parameters"
	TrapVariants = "parameter_combinations"
	TrapCalendar = "calendar"
)

// Traps recognises URLs of which a site can make endlessly many; docs/traps.md says how, and why the thresholds are what they are. Most
// rules look at a URL alone. Those about combinations of parameters and about calendars go by what this run has seen of the path.
type Traps struct {
	s         *config.Settings
	combos    combinations
	calendars calendars
}

// NewTraps takes its thresholds from the settings.
func NewTraps(s *config.Settings) *Traps {
	return &Traps{
		s:      s,
		combos: combinations{paths: map[uint64]*comboPath{}, sets: map[uint64]uint64{}, pairs: map[uint64]struct{}{}},
		calendars: calendars{
			ahead: s.TrapYearsAhead, back: s.TrapYearsBack, barren: s.TrapBarren, now: time.Now, known: map[uint64]*calendar{},
		},
	}
}

// Check names the trap that a newly found URL belongs to, or returns "". Parent is the URL of the page that it was found on.
func (t *Traps) Check(u, parent urlnorm.URL) string {
	switch path, query := u.Path(), u.Query(); {
	case len(u.String()) > t.s.MaxURLLength:
		return TrapLength
	case t.s.TrapRepeats > 0 && repeats(path, t.s.TrapRepeats):
		return TrapRepeats
	case hasSession(path, query):
		return TrapSession
	case t.s.TrapParams > 0 && runawayParams(query, t.s.TrapParams):
		return TrapParams
	case t.calendars.trapped(u, parent):
		return TrapCalendar
	case t.combos.trapped(u, t.s.TrapVariants, t.s.TrapReorders):
		return TrapVariants
	}
	return ""
}

// Saw tells of a page that was read and of the links that are followed on it.
func (t *Traps) Saw(u urlnorm.URL, links []frontier.Link) { t.calendars.saw(u, links) }

// maxTrapsListed is how many traps of one path or calendar are put on record one by one. The others are counted, like links out of scope.
const maxTrapsListed = 500

// Crowded says whether a link is a trap of which there are enough on record already.
func (t *Traps) Crowded(u urlnorm.URL) bool {
	return t.combos.crowded(u, t.s.TrapVariants, t.s.TrapReorders) || t.calendars.crowded(u)
}

// hashOf is one number for texts one after the other.
func hashOf(texts ...string) uint64 {
	var h xxhash.Digest
	h.Reset()
	for _, s := range texts {
		_, _ = h.WriteString(s) // a Digest never fails
		_, _ = h.WriteString("\x00")
	}
	return h.Sum64()
}

// makeRoom forgets entries of a map that has reached its bound, whichever come first: the order of a map is as good as any to forget by.
func makeRoom[V any](m map[uint64]V, most int) {
	for k := range m {
		if len(m) < most {
			return
		}
		delete(m, k)
	}
}
