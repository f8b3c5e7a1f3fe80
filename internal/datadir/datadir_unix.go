//go:build unix

package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkWritable asks the system instead of trying, since a try would leave a trace.
func checkWritable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("data directory: %s is not writable: %w", dir, err)
	}
	return nil
}
