//go:build !linux

package state

import "errors"

// childFill needs Linux: its parent mounts a tmpfs in a namespace of its own.
func childFill(string) error { return errors.New("filling a file system needs Linux") }
