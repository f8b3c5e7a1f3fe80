// Package state is the durable record of a crawl: records in, facts out. It
// implements frontier.Store, and its records are those of package frontier.
//
// # The life of a record
//
// [Store.Commit] encodes a record, gives it the next position and
// puts it into the batch that is being filled; it never blocks. A writer
// goroutine appends batch after batch to the [Journal], and with that a
// record is durable. On one machine the journal is the write-ahead log of package
// wal, and this goroutine is the one that writes and syncs it. Behind it an applier
// goroutine brings the records into Badger, in order, with the position it has
// reached in the same transaction.
// A keeper goroutine makes Badger durable now and then and notes up to where.
// After a crash the journal is read from that place on and applied again: the journal
// is the truth, Badger is a view of it.
//
// A record becomes durable with all that it says or not at all: a finished page and
// the links that it was the first to name cannot come apart.
//
// # Order of calls
//
// [Open] makes or recovers a store. All methods may be called from any goroutine. A caller that commits in bulk calls
// [Store.Ready] first, without locks of its own: it slows a crawl down to the speed of the disk. Commit may be called
// with locks held. The order of Commit calls is the order of the journal.
//
// [Store.Seen], [Store.Host], [Store.Origin] and [Store.Facts] answer for
// everything committed before the call; so do [Store.Pending] and
// [Store.Page], which wait for the applier. [Store.Pages], [Store.Keys],
// [Store.Backlogs] and [Store.Counters] answer for what has been applied;
// call [Store.Flush] first if that matters.
//
// # When the disk fails
//
// After an error of the journal or of Badger the store is failed for good. Every
// later call returns the first error, wrapped, and so does [Store.Close].
// Nothing that was durable is lost; open the directory again to go on.
//
// # Keys
//
// Keys and host ids are hashes under the seed of the crawl, which is in
// the directory; use [Store.Hasher] to make them. The package does not look
// into what it keeps: outcomes, sources and priorities are numbers of the
// caller's, facts are bytes of the caller's.
//
// FORMAT.md beside this file has the encoding of everything on disk, DESIGN.md
// the steps of recovery and what is promised when.
package state
