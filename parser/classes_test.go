package parser

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// checkBlocks reads text with the machine's own means and without, and holds both to what single bytes are.
func checkBlocks(t *testing.T, src []byte) {
	t.Helper()
	most := min(maxBlocks, len(src)/blockSize)
	own, other := new(blockReader), new(blockReader)
	n, m := own.read(src, 0), other.readAnywhere(src, most, true)
	if n != m || *own != *other {
		t.Fatalf("%q: read up to %d as\n%+v\nwithout the machine's own means up to %d as\n%+v", src, n, *own, m, *other)
	}
	for i, c := range src[:most*blockSize] {
		stop := c == '<' || c == '&' || c >= 0x80
		if i == n || stop {
			if i != n || !stop {
				t.Fatalf("%q: read up to %d, the first stop is at %d or before", src, n, i)
			}
			break
		}
		has := func(mask *[maxBlocks]uint64) bool { return mask[i/blockSize]>>(i%blockSize)&1 != 0 }
		between := i%blockSize > 0 && i%blockSize < blockSize-1 && isDigit(src[i-1]) && isDigit(src[i+1])
		if want := isDigit(c) || between && (c == '.' || c == ',' || c == '\''); has(&own.number) != want {
			t.Fatalf("%q: at %d a number: %v", src, i, !want)
		}
		if has(&own.start) && !isAlnum(c) {
			t.Fatalf("%q: a word begins at %d", src, i)
		}
	}
}

func TestClasses(t *testing.T) {
	for place := range blockSize {
		for b := range 256 {
			for _, around := range []byte{' ', 'z'} {
				block := bytes.Repeat([]byte{around}, blockSize)
				block[place] = byte(b)
				checkBlocks(t, block)
			}
		}
	}
}

func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		src := make([]byte, blockSize*(1+r.IntN(maxBlocks+3)))
		digits := r.IntN(3)
		for i := range src {
			src[i] = "ab' .,z17"[r.IntN(7+digits)]
		}
		if r.IntN(2) == 0 {
			src[r.IntN(len(src))] = '<'
		}
		checkBlocks(t, src)
	}
}

// What has fewer characters than a block is read to its end.
func TestLastBlock(t *testing.T) {
	for n := range blockSize {
		var r blockReader
		if got := r.read(bytes.Repeat([]byte{'a'}, n), 0); got != n || r.words != min(n, 1) {
			t.Errorf("%d letters: read %d characters, %d words", n, got, r.words)
		}
	}
}

func FuzzClasses(f *testing.F) {
	f.Add([]byte("It's 5 o'clock & <b>caf\u00e9</b>, [{`@/:}] and then there are 64 or more"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkBlocks(t, append(data, make([]byte, blockSize)...))
	})
}
