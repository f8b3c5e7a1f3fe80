// Package record has the stored forms of what a crawl records, as state/FORMAT.md
// describes them: records and their parts, the keys and values in Badger, the blocks
// of queues. It reads and writes bytes, and knows neither the log nor Badger.
//
// [Append] encodes a record, and [Walk] shows one to a [Visitor]. Both use the table of sections.go, which has one row
// for each section. A [Reader] takes any encoding apart: after the first fault it returns zeros and Bad is set.
package record
