// Package long marks tests that take long by the size of what they try, such as many pages, many kills or a full disk.
// Shorter tests run the same code, so 'make test' and 'make race' leave them out. 'make test-long' runs them.
package long

import (
	"os"
	"testing"
)

// Test skips a long test, unless the environment has MAPWRIGHT_LONG. Call it first in the test, as long.Test(t): the
// script of 'make test-long' looks for that line.
func Test(t testing.TB) {
	t.Helper()
	if os.Getenv("MAPWRIGHT_LONG") == "" {
		t.Skip("a long test: 'make test-long' runs it, or MAPWRIGHT_LONG=1")
	}
}
