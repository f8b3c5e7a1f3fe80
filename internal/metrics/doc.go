// Package metrics holds the Prometheus metrics of a crawl: one registry, made with [New], filled by the crawl, served or written
// out by whoever asks.
//
// Names follow Prometheus' conventions (base units, _total for counters) and are checked by promlint. Labels have a small,
// fixed set of values; host names never become one. A nil *Metrics takes everything and keeps nothing, so that a crawl without
// metrics needs no second path.
package metrics
