//go:build race

package wal

// stride thins out the tests that try every byte: they run no two goroutines
// that share anything, so the race detector only makes them slow.
const stride = 13
