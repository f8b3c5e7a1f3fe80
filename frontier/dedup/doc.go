// Package dedup tells new URLs from known ones in memory, before the store is asked.
//
// [Recent] is an exact set of the URLs seen last: what it knows is known. [Filter] is a stack of bloom filters over all
// URLs: what it does not know is new. Only a URL that the set does not know and the filter does has to be looked up in
// the store. Neither is safe for concurrent use; the frontier has one set per shard and one filter per partition, under
// the shard's lock. [Packs] writes the filters of all partitions into a few blobs, and reads them.
package dedup
