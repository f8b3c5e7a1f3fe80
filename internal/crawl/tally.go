package crawl

import (
	"sync"
	"sync/atomic"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/page"
)

// tally counts what this run did. What the crawl did over its life is counted by the store.
type tally struct {
	outcomes [32]atomic.Int64 // by page.Outcome
	bytes    atomic.Int64
	seeds    atomic.Int64

	mu      sync.Mutex
	reasons map[Reason]int64 // guarded by mu; links not followed
}

func newTally() *tally { return &tally{reasons: map[Reason]int64{}} }

func (t *tally) finished(f *frontier.Finish) {
	t.outcomes[f.Outcome].Add(1)
	t.bytes.Add(int64(f.Bytes))
}

func (t *tally) seeded(n int) { t.seeds.Add(int64(n)) }

func (t *tally) skipped(why Reason) {
	t.mu.Lock()
	t.reasons[why]++
	t.mu.Unlock()
}

// byReason is a copy of the counts of links that were not followed.
func (t *tally) byReason() map[Reason]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[Reason]int64, len(t.reasons))
	for why, n := range t.reasons {
		out[why] = n
	}
	return out
}

// fetched is how many pages this run finished by a request.
func (t *tally) fetched() int64 {
	total := int64(0)
	for i := range t.outcomes {
		switch page.Outcome(i) {
		case page.BlockedByRobots, page.Trap, page.Crashed: // no request was made
		default:
			total += t.outcomes[i].Load()
		}
	}
	return total
}
