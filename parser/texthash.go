package parser

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A textHash is the hash of what a reader sees on a page: its text, which images, films and
// frames it shows, and what it says of itself to those who show a link to it. It is made so that the pages of an endless calendar, or one page
// under many URLs, have few hashes. So numbers of one, two and four digits (days, times,
// years) are left out, and so are numbers that the page's own URL has, fractions of one
// ("took 0.0713 s"), and texts of links that are the link's address. An amount of money
// counts, however small it is: products may differ in nothing else. White space before a
// piece of text, that is, behind a tag, does not count.
//
// It is no protection against a site that constructs two texts with one hash.
type textHash struct {
	words   uint64                // hash of all text but numbers
	numbers uint64                // hash of the numbers that count; 0 if there are none
	digits  uint64                // hash of all numbers; 0 if there are none
	sources uint64                // hash of the addresses of what is shown; 0 if there are none
	similar *similarity           // nil unless it is asked for
	inURL   [maxURLNumbers]string // numbers of the page's URL, as far as they are not left out by their length
	known   int                   // how many of them there are
	href    []byte                // address of the open link, as written
	buf     []byte                // memory for a piece without its numbers

	// A currency and its number are often in two elements, and so in two pieces of text.
	last   []byte // the last piece, if it has no digit
	amount []byte // the number that the last piece ended with, which is an amount if a currency follows
}

const (
	maxURLNumbers = 8
	textPrime     = 0x9e3779b97f4a7c15 // an odd constant without a pattern
)

// begin prepares for the page at a URL. A similarity is computed too if similar is not nil.
func (t *textHash) begin(u URL, similar *similarity) {
	t.words, t.numbers, t.digits, t.sources, t.known, t.href, t.similar = textPrime, 0, 0, 0, 0, nil, similar
	t.last, t.amount = nil, t.amount[:0]
	if u.IsZero() {
		return
	}
	uri, n := u.RequestURI(), 0 // n: digits before i
	for i := range len(uri) + 1 {
		if i < len(uri) && isDigit(uri[i]) {
			n++
			continue
		}
		if !isSmallNumber(n) && t.known < maxURLNumbers {
			t.inURL[t.known] = uri[i-n : i]
			t.known++
		}
		n = 0
	}
}

// isSmallNumber reports whether numbers of so many digits are left out.
func isSmallNumber(digits int) bool { return digits <= 2 || digits == 4 }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// add takes a piece of text as written.
func (t *textHash) add(text []byte) {
	for len(text) > 0 && text[0] <= ' ' {
		text = text[1:]
	}
	if len(text) == 0 || len(t.href) > 0 && t.isAddress(text) {
		return
	}
	if len(t.amount) > 0 {
		if beginsWithCurrency(text) {
			t.numbers, _ = mixText(t.numbers, t.amount)
		}
		t.amount = t.amount[:0]
	}
	if t.similar != nil {
		t.similar.add(text)
	}
	words, digits := mixText(t.words, text)
	if digits {
		text = t.takeNumbers(text)
		t.last = nil
		if len(text) == 0 {
			return
		}
		words, _ = mixText(t.words, text)
	} else {
		t.last = text
	}
	t.words = words
}

// addSource takes the address of an image, a film or a frame, without its query: what is shown is
// new if it is somewhere else. An address that is the content itself does not count.
func (t *textHash) addSource(src []byte) {
	if i := bytes.IndexAny(src, "?#"); i >= 0 {
		src = src[:i]
	}
	if src = trimSpace(src); len(src) > 0 && !hasScheme(src, "data") {
		t.sources, _ = mixText(t.sources, src)
	}
}

// takeNumbers takes the numbers of a text, as far as they count, and returns the text
// without any. It is valid until the next call.
func (t *textHash) takeNumbers(text []byte) []byte {
	t.buf = t.buf[:0]
	for i := 0; i < len(text); {
		n := i + indexDigit(text[i:])
		t.buf = append(t.buf, text[i:n]...)
		i = n
		for n < len(text) && isDigit(text[n]) {
			n++
		}
		if i == len(text) {
			break
		}
		if end := amountEnd(text, n); i == 0 && len(t.last) <= maxCurrency && endsWithCurrency(t.last) || endsWithCurrency(text[:i]) || beginsWithCurrency(text[end:]) {
			t.numbers, _ = mixText(t.numbers, text[i:end])
			t.digits, _ = mixText(t.digits, text[i:end])
			i = end
			continue
		} else if len(trimAmountSpace(text[end:])) == 0 {
			t.amount = append(t.amount, text[i:end]...)
		}
		number := text[i:n]
		t.digits, _ = mixText(t.digits, number)
		if !isSmallNumber(len(number)) && !t.isInURL(number) {
			t.numbers, _ = mixText(t.numbers, number)
		}
		i = n
		if fraction := bytes.HasSuffix(text[:i], []byte("0")) && i+1 < len(text) && text[i] == '.' && (i < 2 || !isDigit(text[i-2])); fraction {
			for i++; i < len(text) && isDigit(text[i]); {
				i++
			}
			t.digits, _ = mixText(t.digits, text[n:i])
		}
	}
	return trimSpace(t.buf)
}

// isAddress reports whether a text is the address of the link that it is the text of. A
// name alone, as in a list of files, is a text.
func (t *textHash) isAddress(text []byte) bool {
	return len(text) >= len(t.href) && bytes.HasPrefix(text, t.href) && len(trimSpace(text)) == len(t.href) && bytes.ContainsAny(text, "/?;")
}

// sum is the hash of words, numbers that count, and sources.
func (t *textHash) sum() uint64 { return mixIn(t.withoutNumbers(), t.numbers) }

// withoutNumbers is the hash of words and sources.
func (t *textHash) withoutNumbers() uint64 { return mixIn(t.words, t.sources) }

// visible is the hash of words and all numbers.
func (t *textHash) visible() uint64 { return mixIn(t.words, t.digits) }

// mixIn adds a hash to another, unless it is 0, which is the hash of nothing.
func mixIn(sum, more uint64) uint64 {
	if more == 0 {
		return sum
	}
	return mix(sum, more, more)
}

func (t *textHash) isInURL(number []byte) bool {
	for _, n := range t.inURL[:t.known] {
		if string(number) == n {
			return true
		}
	}
	return false
}

// mixText adds a text that is not empty to a hash, and reports whether it has a digit.
func mixText(sum uint64, text []byte) (_ uint64, digits bool) {
	others := uint64(highs)
	for len(text) > 16 {
		block := text[:16]
		x, y := binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
		others &= othersOf(x) & othersOf(y)
		sum = mix(sum, x, y)
		text = text[16:]
	}
	var x, y uint64
	if cap(text) >= 16 { // read beyond the end: texts are of any length, and a branch for each would be guessed wrong
		block := text[:16]
		n := len(text)
		x, y = binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:])
		x &= 1<<(8*min(n, 8)) - 1
		y &= 1<<(8*max(n-8, 0)) - 1
	} else {
		var block [16]byte
		copy(block[:], text)
		x, y = binary.LittleEndian.Uint64(block[:]), binary.LittleEndian.Uint64(block[8:])
	}
	others &= othersOf(x) & othersOf(y)
	return mix(sum, x, y), others != highs
}

// mix adds 16 bytes to a hash.
func mix(sum, x, y uint64) uint64 {
	hi, lo := bits.Mul64(x^sum, y^textPrime)
	return hi ^ lo
}

// indexDigit is where the first digit of a text is, or the length of the text.
func indexDigit(text []byte) int {
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		if found := ^othersOf(binary.LittleEndian.Uint64(text[n:])) & highs; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(text) && !isDigit(text[n]) {
		n++
	}
	return n
}

// othersOf marks the high bit of each byte of x that is no ASCII digit. The other bits are of no use.
func othersOf(x uint64) uint64 {
	x ^= ones * '0' // digits become 0 to 9
	return x&^highs + ones*(0x7f-9) | x
}
