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

// watch serves the metrics of a crawl, if a setting asks for it.
type watch struct {
	server  *metrics.Server
	monitor atomic.Pointer[monitor.Monitor] // written once, when the crawl begins
	log     *slog.Logger
}

// newWatch listens before the crawl begins, so that an address that cannot be had is an error and not a surprise.
func newWatch(s *config.Settings, m *metrics.Metrics, log *slog.Logger) (*watch, error) {
	w := &watch{log: log}
	if s.MetricsAddr == "" {
		return w, nil
	}
	var err error
	if w.server, err = m.Serve(s.MetricsAddr, w.status, w.healthy); err != nil {
		return nil, err
	}
	log.Info("serving metrics", "address", "http://"+w.server.Addr())
	return w, nil
}

func (w *watch) stop() {
	if w.server == nil {
		return
	}
	if err := w.server.Close(); err != nil {
		w.log.Warn("cannot end the metrics server", "error", err)
	}
}

func (w *watch) status() any {
	live := &monitor.Live{SchemaVersion: monitor.StatusVersion, State: page.Running}
	if m := w.monitor.Load(); m != nil {
		live = m.Live()
	}
	text, err := json.Marshal(live)
	if err != nil {
		return live // the caller meets the same error and reports it
	}
	// users look at it in terminals, and parts of it come from servers
	return json.RawMessage(page.AppendEscaped(nil, text))
}

func (w *watch) healthy() error {
	if w.monitor.Load() == nil {
		return errors.New("the crawl has not begun")
	}
	return nil
}
