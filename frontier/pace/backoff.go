package pace

import "time"

// restStep is how long the streak-th refusal in a row rests a host by itself:
// 1, 2, 4, 8, 16, 32 and then 60 s.
func restStep(streak int) time.Duration {
	if streak >= 7 {
		return time.Minute
	}
	return time.Second << max(0, streak-1)
}

// Backoff is 2^n seconds for the n-th host failure in a row, n from 1.
func Backoff(n int, most time.Duration) time.Duration {
	if n < 1 {
		return 0
	}
	return min(most, time.Second<<min(n, 30))
}

// failing remembers which URLs made up a row of failures, so that one bad page,
// however often it is tried, counts once. It holds 16 bits of each of the last
// URLs: a chance collision (1 in 6,000 for a full ring) makes one failure go
// uncounted, which errs on the side of not blocking.
type failing struct {
	urls [10]uint16
	n    uint8 // used slots, then the ring's position modulo its length
	full bool
}

func (f *failing) has(url uint64) bool {
	n := int(f.n)
	if f.full {
		n = len(f.urls)
	}
	for _, u := range f.urls[:n] {
		if u == shortURL(url) {
			return true
		}
	}
	return false
}

func (f *failing) add(url uint64) {
	f.urls[f.n] = shortURL(url)
	f.n++
	if int(f.n) == len(f.urls) {
		f.n, f.full = 0, true
	}
}

func shortURL(url uint64) uint16 { return uint16(url ^ url>>16 ^ url>>32 ^ url>>48) }
