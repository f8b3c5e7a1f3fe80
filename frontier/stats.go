package frontier

// Stats are a frontier's figures at one moment.
type Stats struct {
	Pending  int64 // URLs not finished, all hosts, leased ones included
	InMemory int64 // of them, held in memory: the used part of Options.MaxInMemory
	OnDisk   int64 // of them, only in the store
	Leased   int64 // leases out, of all kinds
	Robots   int64 // of them, robots leases
	Waiting  int64 // URLs that wait for a retry
	Held     int64 // URLs that are not tried in this run: blocked, abandoned, over the host limit
	Sources  int64 // source tokens held
	Tickets  int64 // page tickets taken, of Options.MaxURLs
	Added    int64 // links that were new
	Finished int64 // URLs finished

	Violations int64 // times that a host had more in flight than its limit: always 0
}
