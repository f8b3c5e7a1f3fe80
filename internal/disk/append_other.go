//go:build !unix

package disk

import "io/fs"

// NoFollow is a flag of [os.OpenFile]. It is zero where only the user can make links in a directory.
const NoFollow = 0

const noWait = 0

func isOwn(fs.FileInfo) bool { return true }
