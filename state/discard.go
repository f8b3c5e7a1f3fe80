package state

import (
	"encoding/binary"
	"os"
	"path/filepath"
)

// Badger's file of statistics about garbage has a slot of 16 bytes for each value
// log: its number and how many bytes of it are garbage, both big-endian. The first
// slot with the number zero ends the list. The file has no checksum.
const (
	discardName = "DISCARD"
	discardSlot = 16
	maxDiscard  = 1 << 40 // more than a value log can hold
)

// readDiscard returns the value log with the most garbage, which is the one that
// Badger collects next, and how much that is; zero if there is none. The statistics are not valid if
// they name a value log that was never made: Badger looks for it for ever.
func readDiscard(dir string, newest int64) (most, garbage int64, valid bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, discardName))
	if err != nil {
		return 0, 0, false, err
	}
	for ; len(b) >= discardSlot; b = b[discardSlot:] {
		id, n := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
		if id == 0 {
			break
		}
		if id > uint64(newest) || n > maxDiscard {
			return 0, 0, false, nil
		}
		if int64(n) > garbage {
			most, garbage = int64(id), int64(n)
		}
	}
	return most, garbage, true, nil
}
