// Package bench measures whole crawls: ours, beside a bare fetch loop and a naive crawler as the limits of what the machine and a plain
// program can do.
//
// A benchmark of this package starts the synthetic web in a process of its own, so that its CPU is not counted as the crawler's, and
// each crawler in another: our crawler is the built binary with everything on, the others are this package's [Bare] and
// [Naive] behind a flag of the test binary. It reports pages a second of the crawl phase (the export apart), CPU time of the
// crawler per page, its largest anonymous RSS, connections per host, and completeness by the web's own books.
//
//	go test -run '^$' -bench . -benchtime 1x ./bench
//
// Absolute figures wander from machine to machine and hour to hour: compare within one run. With MAPWRIGHT_BENCH=smoke every
// scenario is tiny, which shows only that it runs.
package bench
