//go:build !unix

package testweb

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
