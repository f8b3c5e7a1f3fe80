package parser

import "golang.org/x/sys/cpu"

// blockwise says that readBlocks is there.
var blockwise = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// readBlocks does what blockReader.readAnywhere does, with AVX2. Most is at least 1.
//
//go:noescape
func readBlocks(r *blockReader, src *byte, most int, hash bool) int

// takeShort takes numbers of a block, and the words before each, as long as these have at most mixSize bytes, and the
// number has at most 8 bytes, one separator, and its end in the block. It returns the numbers that are left, and where
// the text begins that is not taken, from the block on. From where the words before the first number begin, mixSize
// bytes behind the block can be read.
//
//go:noescape
func takeShort(t *textHash, block, from *byte, number uint64) (rest uint64, end int)
