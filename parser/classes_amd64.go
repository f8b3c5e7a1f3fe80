package parser

import "golang.org/x/sys/cpu"

// blockwise says that readClasses is there.
var blockwise = cpu.X86.HasAVX2

// readClasses classifies a block with AVX2.
//
//go:noescape
func readClasses(c *classes, block *[blockSize]byte)
