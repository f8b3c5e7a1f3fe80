// Package frontier decides which URL may be fetched next.
//
// A URL is queued, leased, then done. [Frontier.Add] takes seeds in, and
// [Lease.Done] the links of a page together with what became of it, in one
// record. [Frontier.Next] hands out leases: at any moment a lease is for a URL
// whose host may be asked now, by its own pace ([Pace]) and robots.txt.
package frontier
