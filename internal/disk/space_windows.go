package disk

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// FreeBytes is how much this user may still write below dir.
func FreeBytes(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return int64(free), err
}

// Allocated is the size of a file, because this system is not asked how much of it is on disk.
func Allocated(info fs.FileInfo) int64 { return info.Size() }
