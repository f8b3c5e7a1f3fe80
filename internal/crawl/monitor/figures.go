package monitor

import (
	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
)

// figure is one that another part of the program counts; it is read from a sample.
type figure struct {
	metrics.Figure
	read func(s *sample, put func(value float64, label string))
}

// Register names the figures that are counted elsewhere and read when metrics are asked for.
func (m *Monitor) Register() {
	var names []metrics.Figure
	figures := m.figures()
	for _, f := range figures {
		names = append(names, f.Figure)
	}
	m.o.Metrics.Read(names, func(put metrics.Put) {
		s := m.sample()
		for i := range figures {
			figures[i].read(s, func(value float64, label string) { put(i, value, label) })
		}
	})
}

// plain makes a figure without a label.
func plain(name, help string, counter bool, read func(*sample) int64) figure {
	return figure{metrics.Figure{Name: name, Help: help, Counter: counter}, func(s *sample, put func(float64, string)) { put(float64(read(s)), "") }}
}

func (m *Monitor) figures() []figure {
	all := []figure{
		{metrics.Figure{Name: "pages_total", Help: "URLs finished by this run, by outcome.", Counter: true, Label: "outcome"}, func(s *sample, put func(float64, string)) {
			for _, o := range page.Outcomes() {
				if o != page.Pending {
					put(float64(s.outcomes[o]), o.String())
				}
			}
		}},
		{metrics.Figure{Name: "links_skipped_total", Help: "Links found by this run that do not belong to the crawl, by reason.", Counter: true, Label: "reason"}, func(s *sample, put func(float64, string)) {
			for _, why := range scope.Reasons() {
				put(float64(s.skipped[why.String()]), why.String())
			}
		}},
		plain("urls_found_total", "URLs found in all runs of the crawl.", true, func(s *sample) int64 { return s.live.Found }),
		plain("urls_finished_total", "URLs finished in all runs of the crawl.", true, func(s *sample) int64 { return s.finished }),
		plain("urls_pending", "URLs found and not finished.", false, func(s *sample) int64 { return s.live.Pending }),
		plain("generation", "Number of the crawl over the data: 0 is the first, 1 the first recrawl.", false, func(s *sample) int64 { return int64(s.live.Generation) }),
		plain("conditional_requests_total", "Conditional requests of this run that were answered. Only recrawls make some.", true, func(s *sample) int64 { return s.live.Conditional }),
		plain("not_modified_total", "Conditional requests of this run that were answered with 304.", true, func(s *sample) int64 { return s.live.NotModified }),
		plain("urls_waiting_for_retry", "URLs that wait for another try.", false, func(s *sample) int64 { return s.frontier.Waiting }),
		plain("urls_held", "URLs that this run does not try: their hosts are blocked, abandoned or have had all their pages.", false, func(s *sample) int64 { return s.frontier.Held }),
		plain("sitemaps_queued", "Sitemaps that are to be read.", false, func(s *sample) int64 { return s.frontier.Sitemaps }),
		plain("leases", "Requests given out and not ended: pages, robots.txt and sitemaps.", false, func(s *sample) int64 { return s.frontier.Leased }),
		plain("windows_loaded_total", "Times that a host's next URLs were read from disk.", true, func(s *sample) int64 { return s.frontier.Loads }),
		plain("inflight_violations_total", "Times that a host had more in flight than it may have: always 0.", true, func(s *sample) int64 { return s.frontier.Violations }),
		{metrics.Figure{Name: "hosts", Help: "Hosts that have anything pending, by what they wait for.", Label: "waiting_for"}, func(s *sample, put func(float64, string)) {
			for why, n := range s.frontier.Hosts {
				if frontier.Why(why) != frontier.WhyIdle {
					put(float64(n), metrics.LabelOf(frontier.Why(why).String()))
				}
			}
		}},
	}
	all = append(all, m.controlFigures()...)
	all = append(all, dedupFigures()...)
	all = append(all, clusterFigures()...)
	return append(all, storeFigures()...)
}

// clusterFigures are those of a crawl of several machines. In one of one machine all are 0.
func clusterFigures() []figure {
	number := func(name, help string, counter bool, read func(*Cluster) float64) figure {
		return figure{metrics.Figure{Name: name, Help: help, Counter: counter}, func(s *sample, put func(float64, string)) {
			value := 0.0
			if c := s.live.Cluster; c != nil {
				value = read(c)
			}
			put(value, "")
		}}
	}
	return []figure{
		number("cluster_machines", "Machines that work on the crawl.", false, func(c *Cluster) float64 { return float64(c.Machines) }),
		number("cluster_partitions", "Partitions that this machine has.", false, func(c *Cluster) float64 { return float64(c.Partitions) }),
		number("cluster_partitions_without_machine", "Partitions that no living machine has.", false, func(c *Cluster) float64 { return float64(c.Unowned) }),
		number("cluster_handovers_waiting", "Hand-overs between machines that were not received yet.", false, func(c *Cluster) float64 { return float64(c.Handovers) }),
		number("cluster_handovers_sent_total", "Hand-overs that this session has sent.", true, func(c *Cluster) float64 { return float64(c.Sent) }),
		number("cluster_batches_total", "Batches that this session has committed.", true, func(c *Cluster) float64 { return float64(c.Batches) }),
		number("cluster_takeovers_total", "Partitions that this process took over from a machine that had not closed them.", true, func(c *Cluster) float64 { return float64(c.Takeovers) }),
		number("cluster_fenced_total", "Sessions of this process that ended because other machines had taken its partitions over.", true, func(c *Cluster) float64 { return float64(c.Fenced) }),
		number("cluster_partitions_replayed", "Partitions whose log this machine is reading.", false, func(c *Cluster) float64 { return float64(c.Replaying) }),
		number("cluster_replay_rows_left", "Rows that are left of the logs that this machine is reading.", false, func(c *Cluster) float64 { return float64(c.RowsLeft) }),
		number("cluster_replay_bytes_total", "Bytes of logs that this session has read.", true, func(c *Cluster) float64 { return float64(c.ReadBytes) }),
		number("cluster_batch_seconds", "Moving average of how long the engine takes for a batch.", false, func(c *Cluster) float64 { return c.BatchMS / 1000 }),
		number("cluster_engine_away_seconds", "For how long the engine cannot be reached; 0 if it can.", false, func(c *Cluster) float64 { return c.Away }),
	}
}

// controlFigures are the limit, the use and the waiting of each control. Two of the ten are times and not numbers: the delay and the
// backoff of a host have figures of their own, and what waits for them is among the hosts.
func (m *Monitor) controlFigures() []figure {
	cfg := m.o.Settings
	type use struct{ limit, used, waiting int64 }
	uses := func(s *sample) map[string]use {
		fs, most := &s.frontier, int64(0)
		for _, h := range s.live.Busiest {
			most = max(most, int64(h.InFlight))
		}
		of := func(c ControlUse) use { return use{int64(c.Limit), int64(c.InUse), int64(c.Waiting)} }
		return map[string]use{
			"workers":           of(s.live.Workers),
			"inflight_per_host": {int64(cfg.MaxInflightPerHost), most, fs.Hosts[frontier.WhyFull]},
			"frontier_urls":     {int64(cfg.GlobalFrontierSizeLimit), fs.InMemory, fs.OnDisk},
			"dedup_filter":      {int64(cfg.BloomCapacity), int64(fs.FilterKeys), 0},
			"parsers":           of(s.parsing),
			"robots_fetches":    {int64(cfg.RobotsFetchSemaphoreLimit), fs.Robots, fs.Hosts[frontier.WhyRobotsSlot]},
			"dedup_lookups":     {int64(cfg.FPCheckSemaphoreLimit), fs.LookingUp, fs.LookWaiting},
			"ready_hosts":       {int64(cfg.ReadyHeapSizeLimit), int64(fs.Active), int64(fs.Parked)},
		}
	}
	each := func(name, help string, value func(use) int64) figure {
		return figure{metrics.Figure{Name: name, Help: help, Label: "control"}, func(s *sample, put func(float64, string)) {
			for control, u := range uses(s) {
				put(float64(value(u)), control)
			}
		}}
	}
	fixed := func(name, help string, value float64) figure {
		return figure{metrics.Figure{Name: name, Help: help}, func(_ *sample, put func(float64, string)) { put(value, "") }}
	}
	return []figure{
		each("control_limit", "Limit of a control.", func(u use) int64 { return u.limit }),
		each("control_in_use", "What is in use of a control; of those per host, the most that any host has.", func(u use) int64 { return u.used }),
		each("control_waiting", "What waits for a control: workers, parsers, hosts, keys, or URLs that are on disk.", func(u use) int64 { return u.waiting }),
		{metrics.Figure{Name: "control_waits_total", Help: "Times that a worker had to wait for a control.", Counter: true, Label: "control"}, func(s *sample, put func(float64, string)) {
			for control, n := range s.waits {
				put(float64(n), control)
			}
		}},
		{metrics.Figure{Name: "host_delay_limit_seconds", Help: "Bounds of the random delay between two requests of one host.", Label: "bound"}, func(_ *sample, put func(float64, string)) {
			put(float64(cfg.MinDelayMS)/1000, "min")
			put(float64(cfg.MaxDelayMS)/1000, "max")
		}},
		fixed("host_backoff_limit_seconds", "Longest backoff of a host after failures.", float64(cfg.MaxHostBackoffSecs)),
		fixed("host_failures_limit", "Failures in a row that block a host.", float64(cfg.MaxHostFailures)),
		fixed("pages_limit", "Pages that the crawl may fetch in all its runs; 0 is no limit.", float64(cfg.PageCap())),
		fixed("time_limit_seconds", "Time that this run may take; 0 is no limit.", cfg.Duration.Seconds()),
		plain("pages_counted", "Pages that count towards the limit, in all runs of the crawl.", false, func(s *sample) int64 { return s.frontier.Tickets }),
		plain("governor_throttling", "1 while the governor holds workers back.", false, func(s *sample) int64 { return oneIf(s.live.Workers.Limit < s.live.Workers.Most) }),
		plain("paused", "1 while the crawl pauses because this machine fails.", false, func(s *sample) int64 { return oneIf(s.pause > 0) }),
		plain("pauses_total", "Pauses of the crawl because this machine failed.", true, func(s *sample) int64 { return int64(s.pauses) }),
	}
}

func oneIf(so bool) int64 {
	if so {
		return 1
	}
	return 0
}

// dedupFigures say how many links reach each step of the dedup. Each is a counter of its own: a difference of two counters can
// fall, which Prometheus takes for a restart.
func dedupFigures() []figure {
	return []figure{
		{metrics.Figure{Name: "dedup_checks_total", Help: "Links that each step of the dedup was asked about.", Counter: true, Label: "step"}, func(s *sample, put func(float64, string)) {
			put(float64(s.frontier.Links), "hot_set")
			put(float64(s.frontier.Filtered), "bloom")
			put(float64(s.frontier.Doubtful), "store")
		}},
		{metrics.Figure{Name: "dedup_positives_total", Help: "Links that a step of the dedup knew, or thought that it did.", Counter: true, Label: "step"}, func(s *sample, put func(float64, string)) {
			put(float64(s.frontier.HotHits), "hot_set")
			put(float64(s.frontier.Doubtful), "bloom")
		}},
		plain("dedup_false_positives_total", "Links that the bloom filter took for known and the store did not know.", true, func(s *sample) int64 { return s.frontier.Erred }),
		plain("dedup_new_total", "Links that were new.", true, func(s *sample) int64 { return s.frontier.Added }),
		plain("dedup_filter_bytes", "Memory of the bloom filter.", false, func(s *sample) int64 { return int64(s.frontier.FilterBytes) }),
		plain("dedup_hot_set_bytes", "Memory of the hot set.", false, func(s *sample) int64 { return int64(s.frontier.HotBytes) }),
		plain("frontier_window_bytes", "Memory of the queued URLs.", false, func(s *sample) int64 { return int64(s.frontier.WindowBytes) }),
	}
}

func storeFigures() []figure {
	return []figure{
		plain("wal_bytes", "Size of the write-ahead log.", false, func(s *sample) int64 { return s.store.LogBytes }),
		plain("wal_written_bytes_total", "Bytes written to the write-ahead log, padding included.", true, func(s *sample) int64 { return s.store.LogWritten }),
		plain("wal_fsyncs_total", "Fsyncs of the write-ahead log.", true, func(s *sample) int64 { return int64(s.store.LogSyncs) }),
		{metrics.Figure{Name: "wal_fsync_mean_seconds", Help: "Moving average of an fsync's time."}, func(s *sample, put func(float64, string)) { put(s.store.SyncMean.Seconds(), "") }},
		{metrics.Figure{Name: "commit_latency_seconds", Help: "Moving average of a commit's latency, which the governor goes by."}, func(s *sample, put func(float64, string)) { put(s.store.CommitLatency.Seconds(), "") }},
		plain("commit_queue_bytes", "Committed and not yet applied.", false, func(s *sample) int64 { return s.store.QueuedBytes }),
		plain("store_table_bytes", "Size of the store's tables.", false, func(s *sample) int64 { return s.store.TableBytes }),
		plain("store_value_bytes", "Size of the store's value log.", false, func(s *sample) int64 { return s.store.ValueBytes }),
	}
}
