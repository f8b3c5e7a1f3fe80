package frontier

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// partitions is how many parts the space of registrable domains is cut into,
// for ever: what lies on disk belongs to partitions, never to shards.
const partitions = 256

// assign returns the shard, of the given number, that owns a partition.
//
// It is highest-random-weight hashing: every (partition, shard) pair has a
// fixed weight and the heaviest shard wins. Adding a shard therefore moves only
// the partitions that the new shard wins, and moves each of them to it.
func assign(partition uint8, shards int) int {
	best, owner := uint64(0), 0
	for s := range shards {
		if w := shardWeight(partition, s); w > best {
			best, owner = w, s
		}
	}
	return owner
}

// shardWeight must never change: a cluster whose members disagree about it
// would crawl a partition twice.
func shardWeight(partition uint8, shard int) uint64 {
	var b [9]byte
	b[0] = partition
	binary.LittleEndian.PutUint64(b[1:], uint64(shard))
	return xxhash.Sum64(b[:])
}
