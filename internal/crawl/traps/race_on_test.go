//go:build race

package traps

// raceEnabled makes large tests smaller: the detector slows them tenfold.
const raceEnabled = true
