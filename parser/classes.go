package parser

import "encoding/binary"

// blockSize is how many characters of text are looked at together.
const blockSize = 64

// classes tell the characters of a block apart, a bit for each, the first in
// the lowest. What stands behind the first bit of stop means nothing.
type classes struct {
	word       uint64 // ASCII letters and digits
	apostrophe uint64
	stop       uint64 // '<', '&', and all that is not ASCII
}

// read classifies a block, with the machine's own means if it has them.
func (c *classes) read(block *[blockSize]byte) {
	if blockwise {
		readClasses(c, block)
	} else {
		c.readAnywhere(block)
	}
}

// readLast classifies fewer characters than a block has, as if '<' followed.
func (c *classes) readLast(src []byte) {
	var block [blockSize]byte
	copy(block[:], src)
	c.read(&block)
	c.stop |= 1 << len(src)
}

// readAnywhere classifies a block by means that every machine has: eight
// characters at a time, in the bytes of one number. It is what read does where
// nothing better is written, and what read is tested against.
func (c *classes) readAnywhere(block *[blockSize]byte) {
	*c = classes{}
	for k := 0; k < blockSize; k += 8 {
		x := binary.LittleEndian.Uint64(block[k:])
		c.word |= gather(alnums(x)) << k
		c.apostrophe |= gather(equals(x, '\'')) << k
		c.stop |= gather(equals(x, '<')|equals(x, '&')|x&highs) << k
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// equals marks the high bit of each byte of x that is c. It is exact up to the
// first byte that is not ASCII.
func equals(x uint64, c byte) uint64 {
	return ^((x ^ ones*uint64(c)) + ones*0x7f) & highs
}

// alnums marks the high bit of each byte of x that is an ASCII letter or digit,
// exact up to the first byte that is not ASCII.
func alnums(x uint64) uint64 {
	l := x | ones*0x20
	letters := (l + ones*(0x80-'a')) &^ (l + ones*(0x7f-'z'))
	digits := (x + ones*(0x80-'0')) &^ (x + ones*(0x7f-'9'))
	return (letters | digits) & highs
}

// gather moves the high bits of eight bytes together.
func gather(x uint64) uint64 { return (x >> 7) * 0x0102040810204080 >> 56 }
