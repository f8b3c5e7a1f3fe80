// Package urlqueue keeps the URLs of other crawlers: in queues under keys of the client's choice, with refetch dates,
// metadata, leases, delays and blocks.
//
// The log (package wal) is the only copy on disk. Memory holds an index of it with about 70 bytes for each URL, and no
// text. Open makes the index by reading the log. Put returns a [Ticket]: [Store.Wait] returns when the change, and all
// before it, is on disk. The other calls wait for that themselves.
//
// One process at a time may have a directory open. DESIGN.md has the records, the rules of cleaning and what is
// guaranteed.
package urlqueue
