//go:build !amd64

package parser

const blockwise = false

func readClasses(c *classes, block *[blockSize]byte) { c.readAnywhere(block) }
