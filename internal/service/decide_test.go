package service

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
)

// Every state with every command: the new state, what is desired then, and the event; or a refusal.
func TestEveryStateAndCommand(t *testing.T) {
	t.Parallel()
	const refused = State("refused")
	type result struct {
		state   State
		desired Desired
		event   EventType
	}
	no := result{state: refused}
	gone := result{Deleting, DesiredDelete, ""}
	type cases map[Command]result
	all := func(pause, resume, cancel, recrawl result) cases {
		return cases{CommandPause: pause, CommandResume: resume, CommandCancel: cancel, CommandRecrawl: recrawl,
			CommandDelete: gone}
	}
	same := func(s State, d Desired) result { return result{s, d, ""} }
	for _, c := range []struct {
		name    string
		state   State
		desired Desired
		safe    bool
		started bool
		want    cases
	}{
		{"new", Queued, DesiredRun, false, false, all(result{Paused, DesiredPause, CrawlPaused},
			same(Queued, DesiredRun), result{Cancelled, DesiredCancel, CrawlFinished}, no)},
		{"queued again", Queued, DesiredRun, false, true, all(result{Paused, DesiredPause, CrawlPaused},
			same(Queued, DesiredRun), same(Queued, DesiredCancel), no)},
		{"running", Running, DesiredRun, false, true, all(same(Running, DesiredPause), same(Running, DesiredRun),
			same(Running, DesiredCancel), no)},
		{"about to pause", Running, DesiredPause, false, true,
			all(same(Running, DesiredPause), same(Running, DesiredRun), same(Running, DesiredCancel), no)},
		{"about to be cancelled", Running, DesiredCancel, false, true, all(no, no, same(Running, DesiredCancel), no)},
		{"pausing", Pausing, DesiredPause, false, true, all(same(Pausing, DesiredPause), same(Pausing, DesiredRun),
			same(Pausing, DesiredCancel), no)},
		{"paused", Paused, DesiredPause, false, true, all(same(Paused, DesiredPause),
			result{Queued, DesiredRun, CrawlResumed}, same(Paused, DesiredCancel), no)},
		{"paused by the service", Paused, DesiredRun, false, true,
			all(same(Paused, DesiredPause), result{Queued, DesiredRun, CrawlResumed}, same(Paused, DesiredCancel), no)},
		{"paused before it began", Paused, DesiredPause, false, false,
			all(same(Paused, DesiredPause), result{Queued, DesiredRun, CrawlResumed},
				result{Cancelled, DesiredCancel, CrawlFinished}, no)},
		{"paused, being cancelled", Paused, DesiredCancel, false, true, all(no, no, same(Paused, DesiredCancel), no)},
		{"finishing", Finishing, DesiredRun, false, true, all(no, no, no, no)},
		{"finishing, cancelled", Finishing, DesiredCancel, false, true,
			all(no, no, same(Finishing, DesiredCancel), no)},
		{"complete", Complete, DesiredRun, false, true, all(no, no, no, result{Queued, DesiredRun, CrawlQueued})},
		{"partial", Partial, DesiredRun, false, true, all(no, result{Queued, DesiredRun, CrawlResumed}, no,
			result{Queued, DesiredRun, CrawlQueued})},
		{"failed", Failed, DesiredRun, false, true, all(no, result{Queued, DesiredRun, CrawlResumed}, no, no)},
		{"cancelled", Cancelled, DesiredCancel, false, true, all(no, no, same(Cancelled, DesiredCancel), no)},
		{"deleting", Deleting, DesiredDelete, false, true, all(no, no, no, no)},
		{"safe, queued", Queued, DesiredRun, true, false, all(result{Paused, DesiredPause, CrawlPaused},
			same(Queued, DesiredRun), result{Cancelled, DesiredCancel, CrawlFinished}, no)},
		{"safe, running", Running, DesiredRun, true, true, all(no, same(Running, DesiredRun),
			same(Running, DesiredCancel), no)},
		{"safe, complete", Complete, DesiredRun, true, true, all(no, no, no, result{Queued, DesiredRun, CrawlQueued})},
		{"safe, partial", Partial, DesiredRun, true, true, all(no, no, no, no)},
		{"safe, failed", Failed, DesiredRun, true, true, all(no, no, no, no)},
	} {
		var allowed []Command
		for _, command := range Commands() {
			if want := c.want[command]; want.state != refused && (want.state != c.state || want.desired != c.desired) {
				allowed = append(allowed, command)
			}
		}
		for _, command := range Commands() {
			want := c.want[command]
			r := &row{next: &config.Settings{Profile: config.Polite}}
			r.State, r.Desired, r.Profile = c.state, c.desired, "polite"
			if c.safe {
				r.Profile, r.next.Profile = "safe", config.Safe
			}
			if c.started {
				r.StartedAt = page.Time{Time: time.Now()}
			}
			before := *r
			event, err := r.decide(command, time.Now())
			var refusal *Error
			switch {
			case want.state == refused && (!errors.As(err, &refusal) || refusal.Code != ErrState ||
				refusal.State != c.state || !slices.Equal(refusal.Allowed, allowed)):
				t.Errorf("%s, %s: got %v (%+v), want a refusal that allows %v", c.name, command, err, refusal, allowed)
			case want.state == refused && fmt.Sprint(*r) != fmt.Sprint(before):
				t.Errorf("%s, %s: refused, and changed", c.name, command)
			case want.state != refused && (err != nil || r.State != want.state || r.Desired != want.desired ||
				event != want.event):
				t.Errorf("%s, %s: got %s, %s, %q, %v, want %v", c.name, command, r.State, r.Desired, event, err, want)
			}
		}
	}
}

// A partial crawl is resumed only after the limit that it has used is raised.
func TestResumeNeedsARaisedLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		maxURLs  int
		duration time.Duration
		refused  bool
	}{{100, 0, true}, {101, 0, false}, {0, 0, false}, {0, time.Minute, true}, {0, 61 * time.Second, false},
		{200, time.Minute, true}} {
		r := &row{next: &config.Settings{MaxURLs: c.maxURLs, Duration: c.duration}, elapsed: time.Minute}
		r.State, r.Desired, r.PagesCounted, r.Profile = Partial, DesiredRun, 100, "polite"
		if _, err := r.decide(CommandResume, time.Now()); (err != nil) != c.refused {
			t.Errorf("max-urls %d, duration %s: %v", c.maxURLs, c.duration, err)
		}
	}
}

func TestQueueOrder(t *testing.T) {
	t.Parallel()
	e := func(id, account string, priority int, age int64) *entry {
		return &entry{id: id, account: account, priority: priority, queuedAt: 1000 - age}
	}
	recovered := e("recovered", "b", 0, 0)
	recovered.resumeFirst = true
	queued := []*entry{
		e("a1", "a", 5, 90), e("a2", "a", 5, 80), e("a3", "a", 5, 70), e("b1", "b", 5, 60), e("b2", "b", 5, 50),
		e("c1", "c", 5, 40), e("urgent", "a", 9, 10), recovered, e("late", "c", 1, 100),
	}
	order := func(accounts map[string]*terms) (ids []string) {
		for _, e := range inOrder(slices.Clone(queued), accounts) {
			ids = append(ids, e.id)
		}
		return ids
	}
	// After the recovered crawl and the urgent one, accounts a, b, c have 2, 1 and 0 running crawls.
	got := order(map[string]*terms{"a": {running: 1}})
	if want := []string{"recovered", "urgent", "c1", "b1", "a1", "b2", "a2", "a3", "late"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	// They all have 1 then, and have started in the order c, b, a. Once each has 2, the order is that of these starts.
	got = order(map[string]*terms{"a": {turn: 1}, "b": {turn: 3}, "c": {running: 1, turn: 2}})
	if want := []string{"recovered", "urgent", "c1", "b1", "a1", "b2", "a2", "a3", "late"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	// Those that run nothing go by their last starts, and the one that never started any goes first.
	queued = []*entry{
		e("a1", "a", 5, 90), e("a2", "a", 5, 80), e("b1", "b", 5, 70), e("b2", "b", 5, 60), e("c1", "c", 5, 50),
		e("d1", "d", 5, 40), e("d2", "d", 5, 30),
	}
	got = order(map[string]*terms{"a": {turn: 3}, "b": {turn: 1}, "c": {turn: 2}, "d": {}})
	if want := []string{"d1", "b1", "c1", "a1", "d2", "b2", "a2"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}
