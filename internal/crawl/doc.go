// Package crawl runs one crawl: it joins the frontier, the store, the fetcher and the parser, and decides when the crawl is
// over and what it amounted to.
//
// # The life of a URL here
//
// A worker takes a lease from the frontier ([frontier.Frontier.Next]). A lease for robots.txt is answered from the cache or
// fetched, one for a sitemap is read as a stream and its entries are added as they come, and one for a page is checked
// against robots.txt once more, fetched, parsed, and paid back with everything that was found: the facts for the store, the links for
// the frontier, and what the answer means for the host's pace. What becomes of the URL and what it was the first to name is
// one record.
//
// # Who runs what
//
// [Crawl.Run] starts every goroutine and joins them all: the workers, the supervisor (limits, signals, the governor's steps),
// the keeper of checkpoints, the control socket, and one for each public index that is asked for more URLs. A worker holds a
// permit of the global cap from before its lease until after it. Nothing else asks the crawled hosts for anything.
//
// # How it ends
//
// The frontier is drained, a limit is reached, somebody interrupts, or the store fails. Except in the last case, and after a
// second interrupt, the outputs are written; in every case the directory can be resumed.
package crawl
