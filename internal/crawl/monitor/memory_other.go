//go:build !linux

package monitor

import "runtime/metrics"

// residentMemory is, where the system is not asked for the resident set, what the Go runtime has taken and not given
// back.
func residentMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
