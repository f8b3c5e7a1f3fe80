// Package hosts keeps what is known of hosts beyond one crawl: the pace that they were found to need, and whether they
// may be asked at all.
//
// New loads that from the database and gives it to the crawls, so it is called before the service runs. Run writes what
// the crawls learn; the other methods may be called by any goroutine.
package hosts
