package crawl

import "github.com/mapwright/mapwright/state"

// registerMetrics names the figures that are kept elsewhere and read when somebody asks.
func (r *run) registerMetrics() {
	if r.metrics == nil {
		return
	}
	control := func(name string, limit, used func() float64) {
		r.metrics.Gauge("control_limit", "Limit of a control.", limit, "control", name)
		r.metrics.Gauge("control_in_use", "What is in use of a control.", used, "control", name)
	}
	fixed := func(n int) func() float64 { return func() float64 { return float64(n) } }
	s := r.settings
	control("workers", func() float64 { limit, _, _ := r.gov.state(); return float64(limit) }, func() float64 { _, used, _ := r.gov.state(); return float64(used) })
	control("frontier_urls", fixed(s.GlobalFrontierSizeLimit), func() float64 { return float64(r.frontier.Stats().InMemory) })
	control("parsers", fixed(s.ParseSemaphoreLimit), func() float64 { return float64(r.parsing.used()) })
	control("robots_fetches", fixed(s.RobotsFetchSemaphoreLimit), func() float64 { return float64(r.frontier.Stats().Robots) })

	gauge := func(name, help string, read func() float64) { r.metrics.Gauge(name, help, read) }
	gauge("urls_pending", "URLs found and not finished.", func() float64 { return float64(r.frontier.Stats().Pending) })
	gauge("urls_on_disk", "Pending URLs that are only on disk.", func() float64 { return float64(r.frontier.Stats().OnDisk) })
	gauge("leases", "Leases out, of all kinds.", func() float64 { return float64(r.frontier.Stats().Leased) })
	gauge("log_bytes", "Size of the write-ahead log.", func() float64 { return float64(r.storeStats().LogBytes) })
	gauge("commit_queue_bytes", "Committed and not yet applied.", func() float64 { return float64(r.storeStats().QueuedBytes) })
	r.metrics.Counter("inflight_violations_total", "Times that a host had more in flight than allowed: always 0.", func() float64 { return float64(r.frontier.Stats().Violations) })
	r.metrics.Counter("log_fsyncs_total", "Fsyncs of the write-ahead log.", func() float64 { return float64(r.storeStats().LogSyncs) })
}

func (r *run) storeStats() state.Stats { return r.store.Stats() }
