// Package frontier decides which URL may be fetched next. It knows nothing of
// HTTP, HTML or disks: it is told what was found and how each fetch went, keeps
// its records in a [Store], and hands out leases.
//
// # The life of a URL
//
// A URL comes in as a [Link]: a seed through [Frontier.Add], or with the page that
// names it through [Lease.Done]. If it was never seen before it is recorded, in the
// same record as the end of that page, and queued with its host; from then on it is
// pending until it is finished, exactly once, whatever happens to the process.
//
// [Frontier.Next] waits until some host may be asked, and leases one URL of it. The
// lease holds one of the host's slots, the URL's room in memory and its page ticket.
// The worker calls [Lease.Start] before the first byte of the request, and sends nothing
// if that returns an error. It calls [Lease.Done] when the result is known. And it defers
// [Lease.Abandon], which returns the lease if a panic prevented the call of Done. Done finishes the URL, or puts it back for
// another attempt; which of the two it was, it returns.
//
//	for {
//		l, err := f.Next(ctx)
//		if err != nil {
//			return err // ErrDrained: the crawl is complete
//		}
//		go func() {
//			defer l.Abandon()
//			result := fetch(l) // calls l.Start
//			l.Done(result)
//		}()
//	}
//
// Not every lease is for a page. Before the first page of an origin there is one of
// [KindRobots], and [Frontier.AddSitemap] makes leases of [KindSitemap]; they obey
// the host's pace like any other.
//
// When nothing is queued, leased or waiting, and nobody holds a token of
// [Frontier.Source], Next returns [ErrDrained]. That is a fact and not a guess, as
// long as whoever adds links that do not come from a lease holds a token meanwhile.
//
// # Going on later
//
// With a durable store a crawl can be ended anywhere, by the power cord too. The next
// run makes a frontier with the same Seed over the same store, calls
// [Frontier.Resume], and [Frontier.RestoreFilters] with what [Frontier.SaveFilters]
// saved, or [Frontier.Remember] with the keys of all links if there is nothing or it
// cannot be read. Nothing in the store depends on the number of shards or on any
// limit, so all of them may change.
//
// # Pace
//
// What an answer means for a host is decided by [pace.Pace], a value without any clock or
// lock; the frontier keeps one for each host and does what it says. It can be used
// by itself.
//
// DESIGN.md beside this file says why all this is built as it is.
package frontier
