package parser

import "golang.org/x/sys/cpu"

// blockwise says whether this machine can run readBlocks and takeShort.
var blockwise = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// readBlocks does what blockReader.readAnywhere does, with AVX2. Most is at least 1.
//
//go:noescape
func readBlocks(r *blockReader, src *byte, most int, hash bool) int

// takeShort takes numbers of a block, and the words before each of them. It stops at the first number that has more
// than 8 bytes, more than one separator or no end in the block, or more than mixSize bytes of words before it. It
// returns the numbers that are left, and where the text begins that is not taken, counted from the block. From is where
// the words before the first number begin. From there to mixSize bytes after the block all memory must be readable.
//
//go:noescape
func takeShort(t *textHash, block, from *byte, number uint64) (rest uint64, end int)
