package monitor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/page"
)

// figure is a number that another part of the program counts; it is read from a sample.
type figure struct {
	metrics.Figure
	read func(s *sample, put sink)
}

// A sink takes one value of a figure. The label is empty for a figure without one.
type sink func(value float64, label string)

// Register names the figures that are counted elsewhere and read when metrics are asked for.
func (m *Monitor) Register() {
	var names []metrics.Figure
	figures := m.figures()
	for _, f := range figures {
		names = append(names, f.Figure)
	}
	m.o.Metrics.Read(names, func(put metrics.Put) error {
		s := m.sample()
		for i := range figures {
			figures[i].read(s, func(value float64, label string) { put(i, value, label) })
		}
		return nil
	})
}

// labelled makes a figure with a label.
func labelled(name, help, label string, read func(*sample, sink)) figure {
	return figure{metrics.Figure{Name: name, Help: help, Label: label}, read}
}

// number makes a figure without a label.
func number[T int64 | float64](name, help string, read func(*sample) T) figure {
	return figure{metrics.Figure{Name: name, Help: help}, func(s *sample, put sink) { put(float64(read(s)), "") }}
}

func (m *Monitor) figures() []figure {
	all := []figure{
		labelled("pages_total", "URLs finished by this run, by outcome.", "outcome", func(s *sample, put sink) {
			for _, o := range page.Outcomes() {
				if o != page.Pending {
					put(float64(s.outcomes[o]), o.String())
				}
			}
		}),
		labelled("links_skipped_total", "Links found by this run that do not belong to the crawl, by reason.", "reason",
			func(s *sample, put sink) {
				for _, why := range scope.Reasons() {
					put(float64(s.skipped[why.String()]), why.String())
				}
			}),
		number("urls_found_total", "URLs found in all runs of the crawl.",
			func(s *sample) int64 { return s.live.Found }),
		number("urls_finished_total", "URLs finished in all runs of the crawl.",
			func(s *sample) int64 { return s.finished }),
		number("urls_pending", "URLs found and not finished.", func(s *sample) int64 { return s.live.Pending }),
		number("generation", "Number of the crawl over the data: 0 is the first, 1 the first recrawl.",
			func(s *sample) int64 { return int64(s.live.Generation) }),
		number("conditional_requests_total",
			"Conditional requests of this run that were answered. Only recrawls make some.",
			func(s *sample) int64 { return s.live.Conditional }),
		number("not_modified_total", "Conditional requests of this run that were answered with 304.",
			func(s *sample) int64 { return s.live.NotModified }),
		number("urls_waiting_for_retry", "URLs that wait for another try.",
			func(s *sample) int64 { return s.frontier.Waiting }),
		number("urls_held", "URLs that this run does not try: their hosts are blocked, abandoned or have had all "+
			"their pages.", func(s *sample) int64 { return s.frontier.Held }),
		number("sitemaps_queued", "Sitemaps that are to be read.",
			func(s *sample) int64 { return s.frontier.Sitemaps }),
		number("checks_queued", "URLs outside of the crawl that are to be checked.",
			func(s *sample) int64 { return s.frontier.Checks }),
		number("leases", "Requests given out and not ended: pages, robots.txt and sitemaps.",
			func(s *sample) int64 { return s.frontier.Leased }),
		number("windows_loaded_total", "Times that a host's next URLs were read from disk.",
			func(s *sample) int64 { return s.frontier.Loads }),
		number("inflight_violations_total", "Times that a host had more in flight than it may have: always 0.",
			func(s *sample) int64 { return s.frontier.Violations }),
		labelled("hosts", "Hosts that have anything pending, by what they wait for.", "waiting_for",
			func(s *sample, put sink) {
				for _, why := range slices.Sorted(maps.Keys(s.frontier.Hosts)) {
					if why != "idle" {
						put(float64(s.frontier.Hosts[why]), metrics.LabelOf(why))
					}
				}
			}),
	}
	all = append(all, m.controlFigures()...)
	all = append(all, dedupFigures()...)
	all = append(all, clusterFigures()...)
	return append(all, storeFigures()...)
}

// clusterFigures are those of a crawl of several machines. In a crawl of one machine all are 0.
func clusterFigures() []figure {
	ofCluster := func(name, help string, read func(*Cluster) float64) figure {
		return number(name, help, func(s *sample) float64 { return read(cmp.Or(s.live.Cluster, &Cluster{})) })
	}
	return []figure{
		ofCluster("cluster_machines", "Machines that work on the crawl.",
			func(c *Cluster) float64 { return float64(c.Machines) }),
		ofCluster("cluster_partitions", "Partitions that this machine has.",
			func(c *Cluster) float64 { return float64(c.Partitions) }),
		ofCluster("cluster_partitions_without_machine", "Partitions that no living machine has.",
			func(c *Cluster) float64 { return float64(c.Unowned) }),
		ofCluster("cluster_handovers_waiting", "Hand-overs between machines that were not received yet.",
			func(c *Cluster) float64 { return float64(c.Handovers) }),
		ofCluster("cluster_handovers_sent_total", "Hand-overs that this session has sent.",
			func(c *Cluster) float64 { return float64(c.Sent) }),
		ofCluster("cluster_batches_total", "Batches that this session has committed.",
			func(c *Cluster) float64 { return float64(c.Batches) }),
		ofCluster("cluster_takeovers_total",
			"Partitions that this process took over from a machine that had not closed them.",
			func(c *Cluster) float64 { return float64(c.Takeovers) }),
		ofCluster("cluster_fenced_total",
			"Sessions of this process that ended because other machines had taken its partitions over.",
			func(c *Cluster) float64 { return float64(c.Fenced) }),
		ofCluster("cluster_partitions_replayed", "Partitions whose log this machine is reading.",
			func(c *Cluster) float64 { return float64(c.Replaying) }),
		ofCluster("cluster_replay_rows_left", "Rows that are left of the logs that this machine is reading.",
			func(c *Cluster) float64 { return float64(c.RowsLeft) }),
		ofCluster("cluster_replay_bytes_total", "Bytes of logs that this session has read.",
			func(c *Cluster) float64 { return float64(c.ReadBytes) }),
		ofCluster("cluster_batch_seconds", "Moving average of how long the engine takes for a batch.",
			func(c *Cluster) float64 { return c.BatchMS / 1000 }),
		ofCluster("cluster_engine_away_seconds", "For how long the engine cannot be reached; 0 if it can.",
			func(c *Cluster) float64 { return c.Away }),
	}
}

// controlFigures returns the limit, the use and the waiting of each control. Two of the ten controls are times and not
// numbers: the delay and the backoff of a host. They have figures of their own, and the figure hosts says how many wait
// for them.
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
			"inflight_per_host": {int64(cfg.MaxInflightPerHost), most, fs.Hosts["in flight"]},
			"frontier_urls":     {int64(cfg.GlobalFrontierSizeLimit), fs.InMemory, fs.OnDisk},
			"dedup_filter":      {int64(cfg.BloomCapacity), int64(fs.FilterKeys), 0},
			"parsers":           of(s.Parsing),
			"robots_fetches":    {int64(cfg.RobotsFetchSemaphoreLimit), fs.Robots, fs.Hosts["robots.txt slot"]},
			"dedup_lookups":     {int64(cfg.FPCheckSemaphoreLimit), fs.LookingUp, fs.LookWaiting},
			"ready_hosts":       {int64(cfg.ReadyHeapSizeLimit), int64(fs.Active), int64(fs.Parked)},
		}
	}
	each := func(name, help string, value func(use) int64) figure {
		return labelled(name, help, "control", func(s *sample, put sink) {
			for control, u := range uses(s) {
				put(float64(value(u)), control)
			}
		})
	}
	fixed := func(name, help string, value float64) figure {
		return number(name, help, func(*sample) float64 { return value })
	}
	return []figure{
		each("control_limit", "Limit of a control.", func(u use) int64 { return u.limit }),
		each("control_in_use", "What is in use of a control; of those per host, the most that any host has.",
			func(u use) int64 { return u.used }),
		each("control_waiting", "What waits for a control: workers, parsers, hosts, keys, or URLs that are on disk.",
			func(u use) int64 { return u.waiting }),
		labelled("control_waits_total", "Times that a worker had to wait for a control.", "control",
			func(s *sample, put sink) {
				put(float64(s.WorkerWaits), "workers")
				put(float64(s.ParserWaits), "parsers")
				put(float64(s.frontier.LookWaited), "dedup_lookups")
			}),
		labelled("host_delay_limit_seconds", "Bounds of the random delay between two requests of one host.", "bound",
			func(_ *sample, put sink) {
				put(float64(cfg.MinDelayMS)/1000, "min")
				put(float64(cfg.MaxDelayMS)/1000, "max")
			}),
		fixed("host_backoff_limit_seconds", "Longest backoff of a host after failures.",
			float64(cfg.MaxHostBackoffSecs)),
		fixed("host_failures_limit", "Failures in a row that block a host.", float64(cfg.MaxHostFailures)),
		fixed("pages_limit", "Pages that the crawl may fetch in all its runs; 0 is no limit.", float64(cfg.PageCap())),
		fixed("time_limit_seconds", "Time that this run may take; 0 is no limit.", cfg.Duration.Seconds()),
		number("pages_counted", "Pages that count towards the limit, in all runs of the crawl.",
			func(s *sample) int64 { return s.frontier.Tickets }),
		number("governor_throttling", "1 while the governor holds workers back.",
			func(s *sample) int64 { return oneIf(s.live.Workers.Limit < s.live.Workers.Most) }),
		number("paused", "1 while the crawl pauses because this machine fails.",
			func(s *sample) int64 { return oneIf(s.PauseLeft > 0) }),
		number("pauses_total", "Pauses of the crawl because this machine failed.",
			func(s *sample) int64 { return int64(s.Pauses) }),
	}
}

func oneIf(so bool) int64 {
	if so {
		return 1
	}
	return 0
}

// dedupFigures say how many links reach each step of the dedup. Each is a counter of its own: a difference of two
// counters can fall, which Prometheus takes for a restart.
func dedupFigures() []figure {
	return []figure{
		labelled("dedup_checks_total", "Links that each step of the dedup was asked about.", "step",
			func(s *sample, put sink) {
				put(float64(s.frontier.Links), "hot_set")
				put(float64(s.frontier.Filtered), "bloom")
				put(float64(s.frontier.Doubtful), "store")
			}),
		labelled("dedup_positives_total", "Links that a step of the dedup knew, or thought that it did.", "step",
			func(s *sample, put sink) {
				put(float64(s.frontier.HotHits), "hot_set")
				put(float64(s.frontier.Doubtful), "bloom")
			}),
		number("dedup_false_positives_total", "Links that the bloom filter took for known and the store did not know.",
			func(s *sample) int64 { return s.frontier.Erred }),
		number("dedup_new_total", "Links that were new.", func(s *sample) int64 { return s.frontier.Added }),
		number("dedup_filter_bytes", "Memory of the bloom filter.",
			func(s *sample) int64 { return int64(s.frontier.FilterBytes) }),
		number("dedup_hot_set_bytes", "Memory of the hot set.",
			func(s *sample) int64 { return int64(s.frontier.HotBytes) }),
		number("frontier_window_bytes", "Memory of the queued URLs.",
			func(s *sample) int64 { return int64(s.frontier.WindowBytes) }),
	}
}

func storeFigures() []figure {
	return []figure{
		number("wal_bytes", "Size of the write-ahead log.", func(s *sample) int64 { return s.store.LogBytes }),
		number("wal_written_bytes_total", "Bytes written to the write-ahead log, padding included.",
			func(s *sample) int64 { return s.store.LogWritten }),
		number("wal_fsyncs_total", "Fsyncs of the write-ahead log.",
			func(s *sample) int64 { return int64(s.store.LogSyncs) }),
		number("wal_fsync_mean_seconds", "Moving average of an fsync's time.",
			func(s *sample) float64 { return s.store.SyncMean.Seconds() }),
		number("commit_latency_seconds", "Moving average of a commit's latency, which the governor goes by.",
			func(s *sample) float64 { return s.store.CommitLatency.Seconds() }),
		number("commit_queue_bytes", "Committed and not yet applied.",
			func(s *sample) int64 { return s.store.QueuedBytes }),
		number("store_table_bytes", "Size of the store's tables.", func(s *sample) int64 { return s.store.TableBytes }),
		number("store_value_bytes", "Size of the store's value log.",
			func(s *sample) int64 { return s.store.ValueBytes }),
	}
}
