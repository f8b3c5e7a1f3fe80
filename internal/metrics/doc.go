// Package metrics holds the Prometheus metrics of a crawl: one registry, made with [New], filled by the crawl, served
// or written out by the reader.
//
// There are two kinds of figures. What happens and is kept nowhere else (how long a fetch took, a change of pace) is
// told by [Metrics.Count], [Metrics.Observe] and [Metrics.Fetched] when it happens. What another package counts
// anyway (pages by outcome, how full a control is) is read by [Metrics.Read] when the figures are requested, all
// figures at one moment, and costs a crawl nothing.
//
// Names follow Prometheus' conventions (base units, _total for counters) and are checked by promlint. Every label has a
// fixed set of values, which is given to New; anything else is counted as "other", and host names never become one. All
// series of such a label are there from the start, as zero. A nil *Metrics takes everything and keeps nothing, so that
// a crawl without metrics needs no second path.
package metrics
