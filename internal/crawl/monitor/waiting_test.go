package monitor

import (
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

func TestWaitingReason(t *testing.T) {
	resting := func(fs *frontier.Stats) {
		fs.Hosts = map[string]int64{"rest": 3, "backoff": 1}
		fs.Next = 4200 * time.Millisecond
	}
	for _, tt := range []struct {
		name  string
		phase Figures
		idle  time.Duration
		stats frontier.Stats
		more  func(*frontier.Stats)
		want  string
	}{
		{"at work", Figures{Phase: Crawling}, time.Second, frontier.Stats{Leased: 2, Pending: 9}, nil, ""},
		{"between two requests", Figures{Phase: Crawling}, time.Second, frontier.Stats{Pending: 9}, nil, ""},
		{"hosts rest", Figures{Phase: Crawling}, 3 * time.Second, frontier.Stats{Pending: 1200}, resting,
			"1,200 URLs wait: 3 hosts rest after refusals, 1 host backs off after a failure; the next request in 4.2s"},
		{"one URL", Figures{Phase: Crawling}, 3 * time.Second, frontier.Stats{Pending: 1, Next: 90 * time.Second}, nil,
			"1 URL waits: no host may be asked yet; the next request in 1m30s"},
		{"no host answers", Figures{Phase: Crawling}, 8 * time.Second, frontier.Stats{Leased: 2, Pending: 9}, nil,
			"2 requests under way, and nothing has come for 8s"},
		{"nothing queued", Figures{Phase: Crawling}, 3 * time.Second, frontier.Stats{Next: -1}, nil,
			"nothing is queued; sitemaps or other sources are still being read"},
		{"a machine that gets its share", Figures{Phase: Crawling, Cluster: &Cluster{Machines: 2}}, 3 * time.Second,
			frontier.Stats{Next: -1}, nil, "this machine has no partitions yet; the others hand its share over"},
		{"a machine in the place of a lost one", Figures{Phase: Crawling, Cluster: &Cluster{Machines: 1, Unowned: 256}},
			3 * time.Second, frontier.Stats{Next: -1}, nil,
			"256 partitions have no machine; they are taken over when the one before has been silent for long enough"},
		{"a machine that reads logs", Figures{Phase: Crawling,
			Cluster: &Cluster{Machines: 1, Partitions: 9, Unowned: 3, Replaying: 2, RowsLeft: 1}}, 3 * time.Second,
			frontier.Stats{Next: -1}, nil, "reading the logs of 2 partitions, 1 row left"},
		{"a machine that has done its share", Figures{Phase: Crawling, Cluster: &Cluster{Machines: 2, Partitions: 128}},
			3 * time.Second, frontier.Stats{Next: -1}, nil,
			"nothing is queued on this machine; the others have the rest of the crawl"},
		{"the only machine", Figures{Phase: Crawling, Cluster: &Cluster{Machines: 1, Partitions: 256}}, 3 * time.Second,
			frontier.Stats{Next: -1}, nil, "nothing is queued; start URLs or other sources are still being read"},
		{"in the queue", Figures{Phase: Queueing, Note: "another safe crawl runs"}, 0, frontier.Stats{}, nil,
			"another safe crawl runs"},
		{"stopping", Figures{Phase: Stopping}, time.Minute, frontier.Stats{Leased: 2, Pending: 9}, nil, ""},
		{"writing", Figures{Phase: Writing}, time.Minute, frontier.Stats{Pending: 9}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.more != nil {
				tt.more(&tt.stats)
			}
			if got := waitingReason(&tt.phase, &tt.stats, tt.idle); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWaitingForThisMachine(t *testing.T) {
	f := &Figures{Phase: Crawling, PauseReason: "too many open files", PauseLeft: time.Second}
	want := "this machine fails, not the hosts (too many open files); trying again in 1s"
	if got := waitingReason(f, &frontier.Stats{Leased: 3}, 0); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
