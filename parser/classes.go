package parser

import (
	"encoding/binary"
	"math/bits"
)

const (
	blockSize = 64 // characters that are looked at together
	maxBlocks = 8  // blocks that are read at once
)

// A blockReader reads text by blocks: it counts words, finds digits, and hashes blocks of text without digits.
type blockReader struct {
	words int

	// What is remembered of the text before a block. Each is 0 or 1, so that it can be put before the first bit of the
	// block.
	inside uint64 // the last character belongs to a word
	joined uint64 // the last is an apostrophe, the one before belongs to a word

	from       int    // where the text begins that is not hashed yet
	sum, other uint64 // hash of text without numbers: two sums, so that multiplications run side by side

	last mixBytes // copy of a text at the end of its memory; see load

	// What the characters of the last blocks are. Each character has one bit, the first the lowest.
	start     [maxBlocks]uint64 // first characters of words
	number    [maxBlocks]uint64 // digits, and single separators ('.', ',', apostrophes) between digits
	anyNumber uint64            // not 0 if a block has a number; the caller clears it
}

// read reads blocks of src from i on, maxBlocks of them at most, up to the first stop: '<', '&', or what is not ASCII.
// It returns how many characters it has read.
func (r *blockReader) read(src []byte, i int) int {
	hash := r.from == i // hash blocks up to the first with a digit
	most := min(maxBlocks, (len(src)-i)/blockSize)
	if most == 0 {
		var last [blockSize]byte
		last[copy(last[:], src[i:])] = '<'
		i, src, most = 0, last[:], 1
	}
	if blockwise {
		return readBlocks(r, &src[i], most, hash)
	}
	return r.readAnywhere(src[i:], most, hash)
}

// readAnywhere reads blocks on any machine: eight characters at a time, in the bytes of one number. Machines without
// readBlocks use it, and readBlocks is tested against it.
func (r *blockReader) readAnywhere(src []byte, most int, hash bool) int {
	for n := range most {
		block := src[n*blockSize:][:blockSize]
		var word, apostrophe, stop, digit, separator uint64
		for k := 0; k < blockSize; k += 8 {
			x := binary.LittleEndian.Uint64(block[k:])
			d, a := digits(x), equals(x, '\'')
			word |= gather(letters(x)|d) << k
			apostrophe |= gather(a) << k
			stop |= gather(equals(x, '<')|equals(x, '&')|x&highs) << k
			digit |= gather(d) << k
			separator |= gather(equals(x|ones*('.'^','), '.')|a) << k
		}
		read := (stop - 1) &^ stop // all bits before the first stop
		word, digit = word&read, digit&read
		r.number[n] = digit | separator&(digit<<1)&(digit>>1)
		r.anyNumber |= r.number[n]
		hash = hash && digit == 0
		// A word begins where a letter or digit follows neither another nor an apostrophe that followed one.
		before := word<<1 | r.inside
		join := apostrophe & before
		r.start[n] = word &^ (before | join<<1 | r.joined)
		r.words += bits.OnesCount64(r.start[n])
		if read != 0 {
			last := bits.Len64(read) - 1
			r.inside, r.joined = word>>last&1, join>>last&1
		}
		if stop != 0 {
			return n*blockSize + bits.TrailingZeros64(stop)
		}
		if hash {
			r.mixBlock(block)
			r.from += blockSize
		}
	}
	return most * blockSize
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// equals marks the high bit of each byte of x that is c. It is exact up to the
// first byte that is not ASCII, as are letters and digits.
func equals(x uint64, c byte) uint64 {
	return ^((x ^ ones*uint64(c)) + ones*0x7f) & highs
}

// letters marks the high bit of each byte of x that is an ASCII letter.
func letters(x uint64) uint64 {
	l := x | ones*0x20
	return (l + ones*(0x80-'a')) &^ (l + ones*(0x7f-'z')) & highs
}

// digits marks the high bit of each byte of x that is an ASCII digit.
func digits(x uint64) uint64 {
	return (x + ones*(0x80-'0')) &^ (x + ones*(0x7f-'9')) & highs
}

// gather moves the high bits of eight bytes together.
func gather(x uint64) uint64 { return (x >> 7) * 0x0102040810204080 >> 56 }
