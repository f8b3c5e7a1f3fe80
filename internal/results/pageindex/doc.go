// Package pageindex is an immutable index beside sitemap.jsonl: 64 bytes for each page and a copy of its URL, so that
// filters and sorts over a million pages need neither the store nor a parser of JSON. The file is derived: Open makes
// it again if it is missing, damaged, or not of the sitemap.jsonl that is there.
//
// A run makes it with a Builder while it exports. Readers call Open, then Query, Find, Line and Counts from any number
// of goroutines, and Close. DESIGN.md has the format.
package pageindex
