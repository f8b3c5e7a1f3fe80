package crawl

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

func TestWaitingReason(t *testing.T) {
	resting := func(fs *frontier.Stats) {
		fs.Hosts[frontier.WhyRest], fs.Hosts[frontier.WhyBackoff] = 3, 1
		fs.Next = 4200 * time.Millisecond
	}
	for _, tt := range []struct {
		name  string
		phase phaseNote
		idle  time.Duration
		stats frontier.Stats
		more  func(*frontier.Stats)
		want  string
	}{
		{"at work", phaseNote{phase: Crawling}, time.Second, frontier.Stats{Leased: 2, Pending: 9}, nil, ""},
		{"between two requests", phaseNote{phase: Crawling}, time.Second, frontier.Stats{Pending: 9}, nil, ""},
		{"hosts rest", phaseNote{phase: Crawling}, 3 * time.Second, frontier.Stats{Pending: 1200}, resting,
			"1,200 URLs wait: 3 hosts rest after refusals, 1 host backs off after a failure; the next request in 4.2s"},
		{"one URL", phaseNote{phase: Crawling}, 3 * time.Second, frontier.Stats{Pending: 1, Next: 90 * time.Second}, nil,
			"1 URL waits: no host may be asked yet; the next request in 1m30s"},
		{"nobody answers", phaseNote{phase: Crawling}, 8 * time.Second, frontier.Stats{Leased: 2, Pending: 9}, nil, "2 requests under way, and nothing has come for 8s"},
		{"nothing queued", phaseNote{phase: Crawling}, 3 * time.Second, frontier.Stats{Next: -1}, nil, "nothing is queued; sitemaps or other sources are still being read"},
		{"in the queue", phaseNote{Queueing, "another safe crawl runs"}, 0, frontier.Stats{}, nil, "another safe crawl runs"},
		{"stopping", phaseNote{phase: Stopping}, time.Minute, frontier.Stats{Leased: 2, Pending: 9}, nil, ""},
		{"writing", phaseNote{phase: Writing}, time.Minute, frontier.Stats{Pending: 9}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &run{breaker: &breaker{}}
			if tt.more != nil {
				tt.more(&tt.stats)
			}
			if got := r.waitingReason(tt.phase, &tt.stats, tt.idle); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWaitingForThisMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{breaker: &breaker{log: slog.New(slog.DiscardHandler)}}
		r.breaker.trip(errors.New("too many open files"))
		want := "this machine fails, not the hosts (too many open files); trying again in 1s"
		if got := r.waitingReason(phaseNote{phase: Crawling}, &frontier.Stats{Leased: 3}, 0); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
