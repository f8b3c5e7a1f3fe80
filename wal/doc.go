// Package wal keeps opaque records in an append-only log that survives a
// crash of the process or of the machine.
//
// # What happens to a record
//
// [Log.Append] gives each record the next LSN, writes all records of the call in
// one piece and makes them durable with one fsync, in the goroutine that calls
// it. [Log.Replay] reads records again in order, and [Log.TruncateBefore] deletes
// segments whose records are no longer needed.
//
// # The writer goroutine
//
// The package starts no goroutine. A program has one goroutine that calls Append: it gathers records into batches while
// the previous fsync is under way. In this program that is the writer goroutine of package state (pipeline.write).
// Records are gathered there only; gathering them here once more would be a second queue with a second transfer.
//
// # Order of calls
//
// [Open] brings a log back to a state in which it may be appended to, or says
// why it must not. [Log.Recovery] then tells what, if anything, was cut from
// its tail. All methods may be called from any goroutine; Append, Replay and
// TruncateBefore may run at the same time, and two calls of Append run one after
// the other. [Log.Close] waits for the Append that is under way.
//
// # Guarantees
//
// When Append returns nil its records are durable, and so is every record
// with a smaller LSN. When it returns an error they may or may not be found by
// the next Open. After a failed write or fsync the log is failed for good: every
// later Append returns the same error, because what the disk holds is no
// longer known. Open the directory again to go on.
//
// One process at a time may have a directory open. The package takes no lock; the caller must.
//
// DESIGN.md beside this file has the byte layout, the steps of recovery, and
// what is assumed of the disk.
package wal
