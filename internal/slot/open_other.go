//go:build !unix

package slot

// openFlags are not needed where each user has a temporary directory of their own.
const openFlags = 0
