package disk

import (
	"fmt"
	"io/fs"
	"os"
)

// OpenAppend opens a file for lines at its end, and makes it if it is missing, for its user alone. In a directory that
// other users can write to, the name could lead to any file of ours, or to a file that another user reads: it is
// refused unless it is a regular file of this process's user, and links are not followed.
func OpenAppend(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|NoFollow|noWait, 0o600)
	if err != nil {
		if info, look := os.Lstat(path); look == nil && info.Mode().Type() == fs.ModeSymlink {
			return nil, fmt.Errorf("%s is a link, which is not followed: move it", path)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: move it", path)
	}
	if err == nil && !isOwn(info) {
		err = fmt.Errorf("%s belongs to another user: move it", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
