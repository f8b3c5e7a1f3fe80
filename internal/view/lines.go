package view

import (
	"context"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/crawl"
)

// LineEvery is how often a crawl without a picture says how it is.
const LineEvery = 10 * time.Second

// Lines logs one line each LineEvery until ctx ends.
func Lines(ctx context.Context, log *slog.Logger, live func() *crawl.Live) {
	tick := time.NewTicker(LineEvery)
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

func writeLine(log *slog.Logger, l *crawl.Live) {
	switch {
	case l.Waiting != "":
		log.Info("Waiting for work...", "reason", l.Waiting, "done", humanize.Comma(l.Done), "pending", humanize.Comma(l.Pending))
		return
	case l.Phase == crawl.Writing:
		log.Info("writing the outputs", "urls", humanize.Comma(l.Found))
		return
	}
	attrs := []any{
		"pages_per_second", rate(l.PagesPerSecNow), "found", humanize.Comma(l.Found), "done", humanize.Comma(l.Done), "pending", humanize.Comma(l.Pending),
		"in_flight", l.InFlight, "bytes", size(float64(l.Bytes)), "memory", size(float64(l.Memory)),
	}
	for _, u := range l.Limits {
		if u.Left > 0 {
			attrs = append(attrs, u.Name+"_limit_in", toGo(u.Left))
		}
	}
	log.Info(string(l.Phase), attrs...)
}
