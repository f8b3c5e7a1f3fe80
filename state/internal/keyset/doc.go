// Package keyset has two small hash tables for keys of URLs, which are hashes already: [Counts] counts keys, and
// [Recent] remembers the last visits. Go's maps hash the keys again and cost several percent of a crawl's CPU.
package keyset
