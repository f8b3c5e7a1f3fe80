// Package metrics holds the Prometheus metrics of a crawl: one registry, made with [New], filled by the crawl, served
// or written out by the reader.
//
// There are two kinds of figures. Events that nothing else counts, such as a fetch or a change of pace, are reported by
// [Metrics.Count], [Metrics.Observe] and [Metrics.Fetched] when they happen. Figures that another package has anyway,
// such as pages by outcome, are read by [Metrics.Read] when they are requested: all of them at one moment, and at no
// cost to the crawl.
//
// Names follow Prometheus' conventions (base units, _total for counters) and are checked by promlint. The labels of
// events have fixed sets of values, which are given to New. Another value is counted as "other", or not at all. Host
// names are never values of labels. All series of these labels exist from the start, with the value 0. The methods that
// report events do nothing on a nil *Metrics, so that a crawl without metrics needs no second path.
package metrics
