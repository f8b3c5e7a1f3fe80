package testweb

import "math/bits"

// rng is splitmix64: one word of state, so that each page can have its own
// sequence without anything being kept for it.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

func (r *rng) intn(n int) int {
	return reduce(r.next(), n)
}

// reduce maps a random word onto [0, n) by its high bits, leaving the low ones
// for another choice.
func reduce(x uint64, n int) int {
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// nodeHash is what everything about one node of one host is derived from.
func nodeHash(seed uint64, host, node int) uint64 {
	return mix(mix(seed+0x632be59bd9b4e019*uint64(host+1)) + uint64(node))
}
