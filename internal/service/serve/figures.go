package serve

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/internal/service"
)

const namespace = "mapwright"

// Figures are the Prometheus metrics of a server.
type Figures struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec // by method and status class
	writes   prometheus.Histogram
	webhooks *prometheus.CounterVec // by result
}

// NewFigures makes metrics in a registry of their own.
func NewFigures() *Figures {
	buckets := prometheus.ExponentialBuckets(0.001, 2, 14)
	f := &Figures{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace,
			Name: "http_request_seconds",
			Help: "Time that requests to the server took, without event streams.", Buckets: buckets},
			[]string{"method", "status"}),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "database_write_seconds",
			Help: "Time that transactions of the database took which write.", Buckets: buckets}),
	}
	f.webhooks = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace,
		Name: "service_webhook_attempts_total",
		Help: "Attempts to deliver webhooks, by result."}, []string{"result"})
	for _, result := range []string{"delivered", "failed"} {
		f.webhooks.WithLabelValues(result)
	}
	f.registry.MustRegister(f.requests, f.writes, f.webhooks, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return f
}

// Wrote counts a transaction of the database that wrote.
func (f *Figures) Wrote(took time.Duration) { f.writes.Observe(took.Seconds()) }

// Attempted counts an attempt to deliver a webhook.
func (f *Figures) Attempted(ok bool) {
	result := "failed"
	if ok {
		result = "delivered"
	}
	f.webhooks.WithLabelValues(result).Inc()
}

// see counts a request that was answered.
func (f *Figures) see(method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		method = "other"
	}
	f.requests.WithLabelValues(method, strconv.Itoa(status/100)+"xx").Observe(took.Seconds())
}

// handler shows the figures, together with those of the service at that moment.
func (f *Figures) handler(s *Server) http.Handler {
	f.registry.MustRegister(metrics.NewReader([]metrics.Figure{
		{Name: "service_crawls", Help: "Crawls by state.", Label: "state"},
		{Name: "service_oldest_wait_seconds", Help: "How long the crawl that waits longest has waited."},
		{Name: "service_free_disk_bytes", Help: "Free space of the disk of the data directory."},
		{Name: "service_event_clients", Help: "Event streams that are open."},
	}, func(put metrics.Put) error {
		put(3, float64(s.streams.count()), "")
		ctx, cancel := context.WithTimeout(context.Background(), collectTime)
		defer cancel()
		f, err := s.Service.Figures(ctx)
		if err != nil {
			return err
		}
		for _, state := range service.States() {
			put(0, float64(f.Crawls[state]), string(state))
		}
		put(1, f.OldestWait.Seconds(), "")
		put(2, float64(f.FreeDisk), "")
		return nil
	}))
	return promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{})
}

// collectTime bounds the queries for one request of the metrics.
const collectTime = 10 * time.Second
