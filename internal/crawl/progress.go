package crawl

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
)

// clock measures how long a run crawls, and all runs of its generation together. A safe crawl that waits for another
// one to end has not begun: its seconds do not count.
type clock struct {
	opened time.Time // when the data directory was opened; written before the run is shared
	// how long earlier runs crawled, as far as it counts towards the time limit; written before the run is shared
	before time.Duration
	past   pastRuns                  // the earlier runs of the generation; written before the run is shared
	start  atomic.Pointer[time.Time] // when the crawl began; nil before. Written by begin
}

// pastRuns is what the store knows of the runs of a generation. A run that was killed counts up to the last note of its
// clock.
type pastRuns struct {
	began   time.Time // when the first one began to crawl; zero if none did
	elapsed time.Duration
	runs    int // how many began to crawl
}

// begin starts the clock.
func (c *clock) begin() {
	now := time.Now()
	c.start.Store(&now)
}

// elapsed is the time since begin; zero before.
func (c *clock) elapsed() time.Duration {
	if start := c.start.Load(); start != nil {
		return time.Since(*start)
	}
	return 0
}

// counted is the time that counts towards the time limit.
func (c *clock) counted() time.Duration { return c.before + c.elapsed() }

// began is when the run began to crawl, or, as long as it has not, when it was opened.
func (c *clock) began() time.Time {
	if start := c.start.Load(); start != nil {
		return *start
	}
	return c.opened
}

// all returns the begin, the time and the number of the generation's runs up to now, this one included.
func (c *clock) all() pastRuns {
	p := pastRuns{began: c.past.began, elapsed: c.past.elapsed + c.elapsed(), runs: c.past.runs}
	if p.began.IsZero() {
		p.began = c.began()
	}
	if c.start.Load() != nil {
		p.runs++
	}
	return p
}

// noteEvery is how long after the last note of the clock the next one is due: what a kill loses is at most a second or
// 1 %, and never more than 10 seconds.
func (c *clock) noteEvery() time.Duration {
	return min(max(c.elapsed()/100, time.Second), cursorsEvery)
}

// fact is the stored form.
func (p pastRuns) fact() frontier.CrawlFact {
	value := p.began.UTC().AppendFormat(nil, factTime)
	value = fmt.Appendf(value, " %d %d", p.elapsed.Milliseconds(), p.runs)
	return frontier.CrawlFact{Name: factClock, Value: value}
}

// readPastRuns reads the stored form. Without one it returns the zero value.
func readPastRuns(value []byte) (p pastRuns) {
	var at string
	var millis int64
	if n, _ := fmt.Sscanf(string(value), "%s %d %d", &at, &millis, &p.runs); n < 3 {
		return pastRuns{}
	}
	began, err := time.Parse(factTime, at)
	if err != nil {
		return pastRuns{}
	}
	p.began, p.elapsed = began, time.Duration(millis)*time.Millisecond
	return p
}

// phaseNote is the phase of a run, and a text for people that says what the run waits for.
type phaseNote struct {
	phase monitor.Phase
	note  string
}

// enter sets the phase. Only goroutines of Run call it.
func (r *run) enter(phase monitor.Phase, note string) { r.phase.Store(&phaseNote{phase, note}) }

// tally counts what this run did. What all runs of the crawl did is counted by the store.
type tally struct {
	outcomes [32]atomic.Int64 // by page.Outcome
	bytes    atomic.Int64

	conditional, notModified atomic.Int64 // answers to conditional requests, and those of them that were 304
}

// asked counts the answer to a conditional request.
func (t *tally) asked(notModified bool) {
	t.conditional.Add(1)
	if notModified {
		t.notModified.Add(1)
	}
}

func (t *tally) finished(f *frontier.Finish) {
	t.outcomes[f.Outcome].Add(1)
	t.bytes.Add(int64(f.Bytes))
}

// fetched is how many pages this run finished by a request.
func (t *tally) fetched() int64 {
	total := int64(0)
	for i := range t.outcomes {
		switch page.Outcome(i) {
		case page.BlockedByRobots, page.Trap, page.Crashed, page.Excluded: // no request was made
		default:
			total += t.outcomes[i].Load()
		}
	}
	return total
}

// lagMeter measures how late goroutines of this process run: how much longer a short sleep takes than it should. On a
// busy CPU the latency of an answer contains that time; it is subtracted before a host is judged by its latency.
type lagMeter struct {
	mean atomic.Int64 // nanoseconds; written by run alone
}

const (
	lagEvery  = 20 * time.Millisecond
	lagWeight = 16 // samples that the moving average looks back
)

// run measures until ctx ends.
func (m *lagMeter) run(ctx context.Context) {
	tick := time.NewTimer(lagEvery)
	defer tick.Stop()
	for due := time.Now().Add(lagEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		mean := m.mean.Load()
		m.mean.Store(mean + (int64(now.Sub(due))-mean)/lagWeight)
		due = now.Add(lagEvery)
		tick.Reset(lagEvery)
	}
}

func (m *lagMeter) value() time.Duration { return time.Duration(max(0, m.mean.Load())) }
