// Package wal keeps opaque records in an append-only log that survives a
// crash of the process or of the machine.
//
// # The life of a record
//
// [Log.Append] gives each record the next LSN, copies it into the batch that
// is being filled and waits. One writer goroutine takes the batch, writes it
// in one piece, makes it durable with one fsync and wakes everybody who had a
// record in it; meanwhile the next batch fills. [Log.Replay] hands records
// out again in order, and [Log.TruncateBefore] deletes segments whose records
// nobody needs any more.
//
// # Order of calls
//
// [Open] brings a log back to a state in which it may be appended to, or says
// why it must not. [Log.Recovery] then tells what, if anything, was cut from
// its tail. All methods may be called from any goroutine; Append, Replay and
// TruncateBefore may run at the same time. [Log.Close] ends the writer after
// the batches already accepted.
//
// # What is promised
//
// When Append returns nil its records are durable, and so is every record
// with a smaller LSN. When it returns an error they may or may not be found by
// the next Open. After a failed write or fsync the log is failed for good: every
// later Append returns the same error, because what the disk holds is no
// longer known. Open the directory again to go on.
//
// One process at a time may have a directory open. The package takes no lock;
// that is the caller's part.
//
// DESIGN.md beside this file has the byte layout, the steps of recovery, and
// what is assumed of the disk.
package wal
