package recrawl

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// isSampled reports whether a 304 of a URL is verified in a generation. The sample is one URL in a hundred, and is
// different in each generation.
func isSampled(k weburl.Key, generation uint32) bool {
	var b [weburl.KeySize + 4]byte
	text := binary.BigEndian.AppendUint32(k.Append(b[:0]), generation)
	return xxhash.Sum64(text)%100 == 0
}

// readsAll reports whether a generation asks for every page without conditions, so that no error of a server lasts for
// ever.
func readsAll(generation uint32) bool { return generation > 0 && generation%10 == 0 }
