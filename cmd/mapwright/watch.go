package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
)

// serveMetrics serves the metrics of a crawl until stop, if a setting asks for it. It listens before the crawl begins,
// so that a crawl does not begin if the address is in use. running holds the crawl once it has begun.
func serveMetrics(s *config.Settings, m *metrics.Metrics, log *slog.Logger,
	running *atomic.Pointer[monitor.Monitor]) (stop func(), err error) {
	if s.MetricsAddr == "" {
		return func() {}, nil
	}
	status := func() any {
		live := &monitor.Live{SchemaVersion: monitor.StatusVersion, State: page.Running}
		if m := running.Load(); m != nil {
			live = m.Live()
		}
		text, err := json.Marshal(live)
		if err != nil {
			return live // the caller meets the same error and reports it
		}
		// users look at it in terminals, and parts of it come from servers
		return json.RawMessage(page.AppendEscaped(nil, text))
	}
	healthy := func() error {
		if running.Load() == nil {
			return errors.New("the crawl has not begun")
		}
		return nil
	}
	server, err := m.Serve(s.MetricsAddr, status, healthy)
	if err != nil {
		return nil, err
	}
	log.Info("serving metrics", "address", "http://"+server.Addr())
	return func() {
		if err := server.Close(); err != nil {
			log.Warn("cannot end the metrics server", "error", err)
		}
	}, nil
}
