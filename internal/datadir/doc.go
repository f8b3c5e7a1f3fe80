// Package datadir names the files of a crawl's data directory, records which of them Mapwright wrote, writes files whole
// or not at all, says whether a crawl may be made there, and reads and writes its plan.
package datadir
