//go:build !linux

package monitor

import "runtime/metrics"

// residentMemory returns the bytes that the Go runtime has taken from the system and not given back. On these systems
// the resident set is not asked for.
func residentMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
