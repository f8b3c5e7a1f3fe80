// Package slot lets one safe crawl run at a time on a machine, first come, first served.
//
// Each crawl that wants the slot takes a ticket: a file in a shared directory, numbered in order of arrival and locked
// for as long as its process runs. The lowest ticket that is still locked owns the slot. The system releases the lock
// of a process that ends in any way, so the next waiter passes over the ticket of a dead process and removes it.
//
// All users of a machine share the directory, so every file in it may be another user's: only regular files are opened,
// nothing is followed or waited for, and what a ticket says is bounded and only shown. A ticket that is the first for
// longer than any safe crawl takes is not waited for.
package slot
