//go:build race

package wal

// The tests that try every byte or every call run no two goroutines that share
// much, so the race detector only makes them slow: it gets a part of them.
const (
	stride      = 13
	crashStride = 4
)
