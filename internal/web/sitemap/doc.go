// Package sitemap reads and writes sitemap files: pure, streaming, without a network or a file system.
//
// [Read] takes whatever a site may offer as a sitemap: a urlset, an index, a text file, RSS or Atom, compressed or not,
// in any encoding that XML may declare. It calls back for each entry as it comes, so that a crawl can start before a
// large file has been read to its end. What comes before a break in a broken file is delivered; the error says where it
// broke. A file has little in memory while it is read, whatever it sends: a site may send many, and slowly (see
// TestReadHoldsLittle). Nothing outside the file is ever loaded: there are no external entities, no document types and
// no inclusions.
//
// [URLSet] and [Index] write files that validate against the schemas of sitemaps.org. A URLSet refuses the entry that
// would take it over a limit of the protocol, and the caller opens the next file.
package sitemap
