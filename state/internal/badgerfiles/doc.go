// Package badgerfiles knows the files that Badger makes in its directory, and nothing of what is stored in them.
//
// Badger goes on without data that it cannot read, deletes it, or ends the process, and it does not say how much of its
// files is durable. So this package does four things beside it:
//
//   - [Verify] reads all files before Badger does, changes nothing, and reports damage as a [*disk.CorruptError].
//   - [Open] removes files that Badger cannot use and that hold nothing, and opens Badger with the settings of a crawl.
//     An error that Badger only logs becomes an error of the caller.
//   - [Files.Sync] makes the files durable and returns how far each one is: a [Span]. The next Verify is given these
//     spans.
//   - [Files.Collect] rewrites value logs that are mostly garbage, and keeps the old ones until the new ones are
//     durable.
//
// The order of calls is Verify, [New], Open, then Sync and Collect while Badger is open.
package badgerfiles
