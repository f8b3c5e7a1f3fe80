// Package warc writes the exchanges of a crawl as WARC 1.1 files (ISO 28500): a warcinfo record at the beginning of
// each file, then for each exchange a response or revisit record and a request record. Every record is a gzip member.
//
// [Open] makes a [Writer], which is an Archive of internal/web/fetch: any number of goroutines call Keep and Spool.
// [Writer.Close] ends it. After an error of a file nothing more is written, and [Writer.Err] returns the error.
//
// # Files
//
// A file that is being written ends with ".open". It gets its name when it has its full size, or when the Writer is
// closed. A record is handed to the operating system before Keep returns, so a process that is killed leaves at most
// one incomplete record, at the end of a file that is open. Open cuts such a record off and names the file. It reads
// the whole file for that.
//
// # Form of the records
//
// The header lines of an answer are those that came, in their bytes. A body keeps its Content-Encoding and loses its
// Transfer-Encoding: chunks are a property of one connection, readers disagree about digests of chunked bodies, and two
// answers with the same body have different chunks. The header line is kept as X-Crawler-Transfer-Encoding, as in the
// files of Common Crawl, and Content-Length says how long the body is.
//
// An exchange with the same body as the one that Exchange.Earlier names, and an answer 304, become revisit records,
// which refer to the earlier record by its URL and date. That of a 304 has no block.
package warc
