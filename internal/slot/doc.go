// Package slot lets one safe crawl run at a time on a machine, first come, first served.
//
// Each crawl that wants the slot takes a ticket: a file in a shared directory, numbered in order of arrival and locked with
// flock for as long as its process lives. The lowest ticket that is still locked owns the slot. The kernel drops the lock of a
// process that dies in any way, so a crashed owner is passed over, and its file is removed, by whoever waits next.
package slot
