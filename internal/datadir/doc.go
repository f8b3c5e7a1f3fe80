// Package datadir names the files of a crawl's data directory, records which of them Mapwright wrote, and says whether
// a crawl may be made there. It writes files whole or not at all, within a bound (Room), and reads and writes
// the plan of the crawl.
package datadir
