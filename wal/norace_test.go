//go:build !race

package wal

const (
	stride      = 1 // of tests that try every byte
	crashStride = 1 // of tests that try every call
)
