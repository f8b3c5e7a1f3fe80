package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
)

// progressEvery is how often a crawl without a live view says how it is.
const progressEvery = 10 * time.Second

// progress shows a running crawl: one line each ten seconds.
type progress struct {
	log  *slog.Logger
	end  chan struct{}
	once sync.Once
	done sync.WaitGroup
}

func newProgress(_ stdio, _ *config.Settings, log *slog.Logger) *progress {
	return &progress{log: log, end: make(chan struct{})}
}

func (p *progress) start(m *crawl.Monitor) { p.done.Go(func() { p.run(m) }) }

func (p *progress) stop() {
	p.once.Do(func() { close(p.end) })
	p.done.Wait()
}

func (p *progress) run(m *crawl.Monitor) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	last := m.Live()
	for {
		select {
		case <-p.end:
			return
		case <-tick.C:
		}
		now := m.Live()
		rate := float64(now.Done-last.Done) / progressEvery.Seconds()
		if now.Done == last.Done && now.Waiting != "" {
			p.log.Info("Waiting for work...", "reason", now.Waiting, "done", now.Done, "pending", now.Pending)
		} else {
			p.log.Info("crawling", "pages_per_second", fmt.Sprintf("%.1f", rate), "found", humanize.Comma(now.Found), "done", humanize.Comma(now.Done),
				"pending", humanize.Comma(now.Pending), "in_flight", now.InFlight, "bytes", humanize.IBytes(uint64(now.Bytes)))
		}
		last = now
	}
}
