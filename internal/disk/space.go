package disk

import (
	"errors"
	"fmt"
)

// ErrFull is returned by Space.Check.
var ErrFull = errors.New("disk is nearly full")

// A Space says whether a disk has enough free space. A write to a mapped file for which the disk has no space kills the
// process, so programs that map files look before they write.
type Space struct {
	Min  int64                           // bytes that must be left; negative means not to look
	Free func(dir string) (int64, error) // FreeBytes, or what a test says
}

// Check returns ErrFull if less than the minimum would be left after so many more bytes are written below dir.
func (s Space) Check(dir string, more int64) error {
	lack, err := s.Lack(dir, more)
	if err != nil || lack <= 0 {
		return err
	}
	need := s.Min + more
	return fmt.Errorf("%s: %w: %d MiB are free and %d MiB are needed", dir, ErrFull, (need-lack)>>20, need>>20)
}

// Lack is how many bytes would be missing from the minimum after so many more are written below dir; 0 or less if
// there are enough.
func (s Space) Lack(dir string, more int64) (int64, error) {
	if s.Min < 0 {
		return 0, nil
	}
	free, err := s.Free(dir)
	if err != nil {
		return 0, fmt.Errorf("look for free disk: %w", err)
	}
	return s.Min + more - free, nil
}

// Below reports whether less than 1/n of the minimum is left. It reports false if that is not known.
func (s Space) Below(dir string, n int64) bool {
	if s.Min < 0 {
		return false
	}
	free, err := s.Free(dir)
	return err == nil && free < s.Min/n
}
