//go:build !unix

package testweb

import "time"

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
