//go:build !unix

package fetch

// openFileLimit is an assumption where the system has no such limit.
func openFileLimit() uint64 { return 1 << 14 }
