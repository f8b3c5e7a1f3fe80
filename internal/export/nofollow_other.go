//go:build !unix

package export

// noFollow is zero where only the user can make links in a directory.
const noFollow = 0
