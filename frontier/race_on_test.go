//go:build race

package frontier

// raceEnabled makes large tests smaller: the detector slows them tenfold.
const raceEnabled = true
