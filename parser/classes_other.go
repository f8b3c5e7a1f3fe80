//go:build !amd64

package parser

const blockwise = false

func readBlocks(*blockReader, *byte, int, bool) int { panic("not on this machine") }

func takeShort(*textHash, *byte, *byte, uint64) (uint64, int) { panic("not on this machine") }
