package parser

import "golang.org/x/sys/cpu"

// blockwise says that readBlocks is there.
var blockwise = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// readBlocks does what blockReader.readAnywhere does, with AVX2. Most is at least 1.
//
//go:noescape
func readBlocks(r *blockReader, src *byte, most int, hash bool) int
