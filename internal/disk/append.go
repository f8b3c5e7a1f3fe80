package disk

import (
	"fmt"
	"io/fs"
	"os"
)

// OpenRegular opens a file, and makes it for its user alone if the flags say so and it is missing. In a directory that
// other users can write to, the name could lead to any file of ours, or to a pipe without an end: links are not
// followed, and what is no regular file is refused.
func OpenRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|NoFollow|noWait, 0o600)
	if err != nil {
		return nil, orLink(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: move it", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// orLink says why a file could not be opened, if that is because its name is a link.
func orLink(path string, err error) error {
	if info, look := os.Lstat(path); look == nil && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%s is a link, which is not followed: move it", path)
	}
	return err
}

// OpenAppend opens a file as OpenRegular does, for lines at its end, and makes it if it is missing. Another user could
// read the lines in a file of their own: it is refused unless it belongs to this process's user.
func OpenAppend(path string) (*os.File, error) {
	f, err := OpenRegular(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !isOwn(info) {
		err = fmt.Errorf("%s belongs to another user: move it", path)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
