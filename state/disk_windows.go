package state

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// freeBytes is how much this user may still write below dir.
func freeBytes(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return int64(free), err
}

func allocated(info fs.FileInfo) int64 { return info.Size() }
