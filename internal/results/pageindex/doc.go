// Package pageindex is an immutable index beside sitemap.jsonl: 64 bytes for each page and a copy of its URL, so that
// filters and sorts over a million pages need neither the store nor a parser of JSON.
//
// An export makes it with a Builder. Readers call Open, then Query, Find, Line and Counts from any number of
// goroutines, and Close. Or they call Cache.Use, which lets the export make an index that is missing, damaged, or not
// of the sitemap.jsonl that is there. DESIGN.md has the format.
package pageindex
