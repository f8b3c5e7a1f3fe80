//go:build !amd64

package parser

// read classifies a block.
func (c *classes) read(block *[blockSize]byte) { c.readAnywhere(block) }
