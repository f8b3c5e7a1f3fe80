package session

import (
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/cluster"
)

const (
	// grantShare: a partition gets 1/grantShare of the pages that are left at once. So blocks become smaller towards
	// the end, and one partition does not hold what others need.
	grantShare = 64
	// mostGranted bounds a block.
	mostGranted = 256
	// grantAgain is how long a session waits after the engine has refused it more pages.
	grantAgain = 500 * time.Millisecond
)

// grants shares the page limit of a crawl among the partitions of a session. A partition counts and fetches only what
// it was granted, so the limit is exact however often machines are killed.
type grants struct {
	left  uint64    // pages that no partition has, as far as it is known
	known bool      // left is known
	again time.Time // when to ask again
}

// learn computes left from a snapshot.
func (g *grants) learn(snap *cluster.Snapshot) {
	g.left, g.known = snap.Crawl.MaxURLs-min(snap.Crawl.MaxURLs, snap.Crawl.Granted), true
}

// share gives pages to partitions that are short of them, and takes those back that a partition without work has.
func (w *work) share() error {
	g := &w.grants
	if w.crawl.MaxURLs == 0 || !g.known || time.Now().Before(g.again) {
		return nil
	}
	member := frontier.MemberOf(w.Frontier)
	list, _ := member.Statuses(func() bool { return true })
	for n := range list {
		p := uint8(n)
		switch {
		case !list[n].Open:
		case list[n].Live == 0:
			used, ok := member.TakeBack(p)
			if !ok {
				continue
			}
			to, done, err := w.journal.grant(p, func(granted uint64) uint64 {
				g.left += granted - min(granted, uint64(used))
				return min(granted, uint64(used))
			})
			if err != nil {
				return err
			}
			if !done {
				member.Grant(p, int64(to))
			}
		case list[n].Short && g.left > 0:
			var block uint64
			to, done, err := w.journal.grant(p, func(granted uint64) uint64 {
				block = min(g.left, max(1, min(mostGranted, g.left/grantShare)))
				return granted + block
			})
			if err != nil {
				return err
			}
			if !done {
				g.left, g.again = 0, time.Now().Add(grantAgain) // the next snapshot knows more
				continue
			}
			g.left -= block
			member.Grant(p, int64(to))
		}
	}
	return nil
}
