// Package seed asks public indexes which URLs a domain has: certificate transparency logs for host names, Common Crawl for pages.
//
// A source is made once ([NewCT], [NewCommonCrawl]) and asked for one domain at a time with URLs, which hands over what it
// finds in small batches while it goes on reading. What is handed over is within the domain and in canonical form, and may come
// twice; scope, robots.txt and dedup are the caller's.
//
// These services are public and often busy. A source asks one thing at a time, pauses between requests, waits longer
// after each refusal and as long as Retry-After says, and gives up after a few tries. Giving up is an error for the caller to mention,
// and what was handed over before it stays good.
package seed
