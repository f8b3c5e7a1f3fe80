package parser

import "golang.org/x/sys/cpu"

// read classifies a block.
func (c *classes) read(block *[blockSize]byte) {
	if !cpu.X86.HasAVX2 {
		c.readAnywhere(block)
		return
	}
	readClasses(c, block)
}

// readClasses needs AVX2.
//
//go:noescape
func readClasses(c *classes, block *[blockSize]byte)
