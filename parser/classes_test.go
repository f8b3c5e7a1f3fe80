package parser

import (
	"bytes"
	"math/bits"
	"testing"
)

// modelClasses classifies one byte after the other.
func modelClasses(block *[blockSize]byte) (c classes) {
	for i, b := range block {
		bit := uint64(1) << i
		switch {
		case isAlnum(b):
			c.word |= bit
		case b == '\'':
			c.apostrophe |= bit
		case b == '<' || b == '&' || b >= 0x80:
			c.stop |= bit
		}
	}
	return c
}

// upToStop leaves what has a meaning.
func (c classes) upToStop() classes {
	if c.stop != 0 {
		before := c.stop&-c.stop - 1
		c.word, c.apostrophe, c.stop = c.word&before, c.apostrophe&before, c.stop&-c.stop
	}
	return c
}

func checkClasses(t *testing.T, block *[blockSize]byte) {
	t.Helper()
	want := modelClasses(block).upToStop()
	var c classes
	if c.read(block); c.upToStop() != want {
		t.Errorf("%q read as %x, want %x", block[:], c, want)
	}
	if c.readAnywhere(block); c.upToStop() != want {
		t.Errorf("%q read as %x without the machine's own means, want %x", block[:], c, want)
	}
}

func TestClasses(t *testing.T) {
	for place := range blockSize {
		for b := range 256 {
			for _, around := range []byte{' ', 'z'} {
				block := [blockSize]byte(bytes.Repeat([]byte{around}, blockSize))
				block[place] = byte(b)
				checkClasses(t, &block)
			}
		}
	}
}

func TestClassesOfTheLast(t *testing.T) {
	for n := range blockSize {
		var c classes
		c.readLast(bytes.Repeat([]byte{'a'}, n))
		if got := bits.TrailingZeros64(c.stop); got != n {
			t.Errorf("%d characters stop at %d", n, got)
		}
		if c.upToStop().word != 1<<n-1 {
			t.Errorf("%d letters read as %x", n, c.word)
		}
	}
}

func FuzzClasses(f *testing.F) {
	f.Add([]byte("It's 5 o'clock & <b>caf\u00e9</b>, [{`@/:}] and then there are 64 or more"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var block [blockSize]byte
		copy(block[:], data)
		checkClasses(t, &block)
	})
}
