// Package crawl runs one crawl: it joins the frontier, the store, the fetcher and the parser, and decides when the
// crawl is over and which status it has then.
//
// # How a URL is served
//
// A worker takes a lease from the frontier ([frontier.Frontier.Next]). A lease for robots.txt is answered from the
// cache or fetched (serveRobots). A sitemap is read as a stream, and its entries are added as they come
// (serveSitemap). A page is checked against robots.txt once more, fetched and parsed (servePage). The lease ends with
// everything that was found: the facts for the store, the links for the frontier, and what the answer means for the
// pace of the host. The outcome of the URL and the links that it was the first to name are one record.
//
// # Goroutines
//
// [Crawl.Run] starts every goroutine and joins them all: the workers, the supervisor (time limit, stop, the governor's
// steps), checkpoints, the control socket, in a recrawl the sweeper that queues visits, and one for each public index
// that is asked for more URLs. A worker holds a permit of the crawl from before its lease until after it. Nothing else
// sends requests to the crawled hosts.
//
// # How it ends
//
// The frontier is drained, a limit is reached, the user stops the crawl, or the store fails. Except in the last case,
// and after Stop(AtOnce), the outputs are written; in every case the directory can be resumed.
package crawl
