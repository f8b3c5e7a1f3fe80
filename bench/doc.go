// Package bench measures whole crawls: ours, beside a bare fetch loop and a naive crawler as the limits of what the
// machine and a plain program can do.
//
// A benchmark of this package starts the synthetic web in a process of its own, so that its CPU is not counted as the
// crawler's, and each crawler in another: our crawler is the built binary with everything on, the others are this
// package's [Bare] and [Naive] behind a flag of the test binary, and, with MAPWRIGHT_BENCH_PEERS=1 in (a) and once in
// (b), gocolly/colly from the module in peers. In each scenario they take turns, five times over and nine times in (a),
// and the median counts: a crawl takes seconds, and the speed of a shared machine changes from minute to minute. A
// benchmark reports pages a second of the crawl phase (the export apart), CPU time of the crawler per page (the export
// included), its largest anonymous RSS with and without the hot set, which is a cache of a size that is set,
// connections per host, and completeness by the web's own statistics.
//
//	go test -run '^$' -bench . -benchtime 1x ./bench
//
// The scenarios are (a) one host with 50,000 pages of 10 KB with 30 links each, (b) 500 hosts with 200 such pages, (c)
// 20,000 hosts with 5, and (d) one host with 5,000 pages of 200 KB. BenchmarkGrowth is (a) at other sizes, up to
// MAPWRIGHT_BENCH_GROWTH pages. BenchmarkRecrawl crawls a site of MAPWRIGHT_BENCH_RECRAWL pages, lets one page in a
// hundred change and crawls it again. BenchmarkDashboards crawls a site of MAPWRIGHT_BENCH_DASHBOARDS pages through the
// service, with and without 100 open pages that show it. BenchmarkFrontierOverBadger and BenchmarkResume leave the
// fetching out: MAPWRIGHT_BENCH_FRONTIER and MAPWRIGHT_BENCH_RESUME are how many URLs they are about. With
// MAPWRIGHT_BENCH=smoke everything is tiny, which shows only that it runs.
//
// Absolute figures differ from machine to machine and from hour to hour: compare within one run. Command record keeps
// what was printed in results and makes a page of it.
package bench
