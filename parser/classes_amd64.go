package parser

// read classifies a block with SSE2, which every amd64 has.
func (c *classes) read(block *[blockSize]byte) { readClasses(c, block) }

//go:noescape
func readClasses(c *classes, block *[blockSize]byte)
