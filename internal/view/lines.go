package view

import (
	"context"
	"log/slog"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"

	"github.com/dustin/go-humanize"
)

// lineEvery is how often a crawl without a picture says how it is.
const lineEvery = 10 * time.Second

// Lines logs one line each lineEvery until ctx ends.
func Lines(ctx context.Context, log *slog.Logger, live func() *monitor.Live) {
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			writeLine(log, live())
		}
	}
}

// Values of a log line: a text log shows them for people, a JSON log as numbers.
type (
	count     int64
	byteCount int64
	perSecond float64
)

func (n count) String() string     { return humanize.Comma(int64(n)) }
func (n byteCount) String() string { return size(float64(n)) }
func (r perSecond) String() string { return rate(float64(r)) }

func writeLine(log *slog.Logger, l *monitor.Live) {
	switch {
	case l.Waiting != "":
		log.Info("Waiting for work...", "reason", l.Waiting, "done", count(l.Done), "pending", count(l.Pending))
		return
	case l.Phase == monitor.Writing:
		log.Info("writing the outputs", "urls", count(l.Found))
		return
	}
	attrs := []any{
		"pages_per_second", perSecond(finite(l.PagesPerSecNow)), "found", count(l.Found), "done", count(l.Done),
		"pending", count(l.Pending),
		"in_flight", l.InFlight, "bytes", byteCount(l.Bytes), "memory", byteCount(l.Memory),
	}
	for _, u := range l.Limits {
		if u.Left > 0 {
			attrs = append(attrs, u.Name+"_limit_in",
				time.Duration(finite(u.Left)*float64(time.Second)).Round(time.Second))
		}
	}
	log.Info(string(l.Phase), attrs...)
}
