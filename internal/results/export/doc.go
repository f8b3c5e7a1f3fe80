// Package export writes what a crawl found: sitemap.jsonl, XML sitemaps, CSV and the link graph, in one pass over the
// store and in memory that does not grow with the pages (80 bytes for each set of XML sitemaps). Others see each
// page in the same pass (Options.Each).
//
// The fields of page.Facts and page.Line are the fields of sitemap.jsonl; those that are single values are the columns
// of sitemap.csv too. To add one, add a field there.
//
// Every file appears whole or not at all: it is written under a temporary name, synced, and renamed when all files are
// complete. Parts are named before the index over them, and files that only an earlier export had are removed last, so
// that an index never names a file that is not there. Only sitemaps that were written here are removed. Exports to the
// same directory take turns.
package export
