package session

import "time"

const (
	// distanceCommits is how many commits a window of distance has: those of about a minute.
	distanceCommits = 256
	// mostDistance bounds distance. A commit that never takes less is slow for another reason than the way.
	mostDistance = 500 * time.Millisecond
)

// distance is how long a commit takes at the least: the way to the engine and back, as often as the engine needs it. It
// is the least of the last commits, between one and two windows of them, so that it follows a way that has changed. A
// commit that takes longer than that has waited for the engine's work.
type distance struct {
	before, now time.Duration // least of the window before and of this one; 0 for none
	commits     int           // in this window
}

// add notes the duration of a commit.
func (d *distance) add(took time.Duration) {
	if d.commits == distanceCommits {
		d.before, d.now, d.commits = d.now, 0, 0
	}
	if d.commits == 0 || took < d.now {
		d.now = took
	}
	d.commits++
}

// least is the distance; 0 before the first commit.
func (d *distance) least() time.Duration {
	least := d.now
	if d.before > 0 {
		least = min(least, d.before)
	}
	return min(least, mostDistance)
}

// Distance is how long a commit takes if the engine has nothing else to do; 0 before the first one.
func (s *Session) Distance() time.Duration {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return s.journal.distance.least()
}
