// Package service runs crawls for people and programs: it keeps accounts, keys, plans and crawls in a database, runs
// the crawls that are due, and records what happened as events.
//
// Open opens the database in the data directory. Run then runs crawls until its context ends; it may be called once.
// Close follows Run. The parts of a Service (Crawls, Accounts, Events) may be used by any goroutine between Open
// and Close, whether or not Run is under way.
//
// What a user may not do is an *Error, which has what an RFC 9457 document needs. Any other error is a fault of the
// service.
package service
