package parser

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A textHash reads what a person sees on a page, in one pass. It counts the words, and hashes the text and the
// addresses of the images, films and frames that are shown. It also hashes the descriptions that the page has for those
// who show a link to it.
//
// The hash is made so that the pages of an endless calendar, or one page under many URLs, have few hashes. Therefore it
// leaves out most numbers that differ there (see readNumber), numbers that are in the page's own URL, and link texts
// that are the link's address. White space beside a tag does not count, nor does a blank between two numbers.
//
// It is no protection against a site that constructs two texts with one hash.
type textHash struct {
	blockReader
	numbers uint64                // hash of the numbers that count; 0 if there are none
	all     uint64                // hash of all numbers; 0 if there are none
	sources uint64                // hash of the addresses of what is shown; 0 if there are none
	similar similarity            // of words without digits
	inURL   [maxURLNumbers]uint64 // hashes of those numbers of the page's URL that would count
	known   int                   // how many of them there are
	href    []byte                // address of the open link, as written
}

const (
	maxURLNumbers = 8
	textPrime     = 0x9e3779b97f4a7c15 // an odd constant without a pattern
)

// begin prepares for the page at a URL. A similarity is computed too if similar is set.
func (t *textHash) begin(u URL, similar bool) {
	*t = textHash{blockReader: blockReader{sum: textPrime, other: textPrime}, similar: similarity{on: similar}}
	if u.IsZero() {
		return
	}
	uri := u.RequestURI()
	for i := 0; i < len(uri); i++ {
		if !isDigit(uri[i]) {
			continue
		}
		end := numberEnd(uri, i)
		number := []byte(uri[i:end])
		if hash, counts := t.readNumber(number); counts && t.known < maxURLNumbers {
			t.inURL[t.known] = hash
			t.known++
		}
		i = end
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scan reads text from i to the next '<' or the end, and returns where that is. It is the one loop that touches every
// byte of a page's text.
func (t *textHash) scan(src []byte, i int) int {
	for ; i < len(src) && src[i] <= ' '; i++ {
		t.separate()
	}
	if i == len(src) || src[i] == '<' {
		return i // tags often follow each other
	}
	if len(t.href) > 0 && t.href[0] == src[i] && t.isAddress(src[i:]) { // its words are counted, and nothing else
		before := *t
		t.href = nil
		end := t.scan(src, i)
		before.words, before.inside, before.joined = t.words, t.inside, t.joined
		*t = before
		return end
	}
	for t.from = i; ; {
		n := t.read(src, i)
		if t.anyNumber != 0 {
			t.takeNumbers(src, i, n)
		}
		if t.similar.on {
			t.vote(src, i, n)
		}
		if i += n; n == maxBlocks*blockSize {
			continue
		}
		if i >= len(src) || src[i] == '<' {
			end := i
			for end > t.from && src[end-1] <= ' ' {
				end--
			}
			t.takeWords(src[t.from:end])
			return i
		}
		i = t.special(src, i)
	}
}

// special reads what is not plain ASCII at i, and returns where to go on. In text of another script it also reads
// single ASCII characters between words.
func (t *textHash) special(src []byte, i int) int {
	if src[i] == '&' {
		r1, r2, n := reference(src[i:], false)
		if n == 0 {
			t.separate()
			return i + 1
		}
		t.addRune(r1)
		if r2 != 0 {
			t.addRune(r2)
		}
		return i + n
	}
	for i < len(src) {
		c := src[i]
		words, size := t.words, 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRune(src[i:])
			t.addRune(r)
		case c == '<' || c == '&' || isDigit(c) || i+1 >= len(src) || src[i+1] < utf8.RuneSelf:
			return i
		default:
			t.addRune(rune(c))
		}
		if t.words > words && t.similar.on {
			t.addWord(src[i:])
		}
		i += size
	}
	return i
}

// vote takes the words of the n characters from i on into the similarity.
func (t *textHash) vote(src []byte, i, n int) {
	for block := 0; block*blockSize < n; block++ {
		for start := t.start[block]; start != 0; start &= start - 1 {
			t.addWord(src[i+block*blockSize+bits.TrailingZeros64(start):])
		}
	}
}

// add takes a text as written that is no part of the page's text. Its words are not counted.
func (t *textHash) add(text []byte) {
	words, inside, joined := t.words, t.inside, t.joined
	for i := 0; i < len(text); i++ { // a '<' is a character here
		t.separate()
		i = t.scan(text, i)
	}
	t.words, t.inside, t.joined = words, inside, joined
}

// addSource takes the address of an image, a film or a frame, without its query. Another address counts as other
// content. A data address, which is the content itself, does not count.
func (t *textHash) addSource(src []byte) {
	if i := bytes.IndexAny(src, "?#"); i >= 0 {
		src = src[:i]
	}
	if src = trimSpace(src); len(src) > 0 && !hasScheme(src, "data") {
		t.sources = mixIn(t.sources, xxhash.Sum64(src))
	}
}

// takeWords takes text without numbers. A single blank, as between two numbers, does not count.
func (t *textHash) takeWords(text []byte) {
	for ; len(text) >= blockSize; text = text[blockSize:] {
		t.mixBlock(text)
	}
	if len(text) == 1 && text[0] <= ' ' {
		return
	}
	for len(text) > 0 {
		n := min(len(text), mixSize)
		block, mask := t.load(text[:n])
		t.sum = mix(t.sum, block.at(0)&mask.at(0), block.at(8)&mask.at(8))
		t.other = mix(t.other, block.at(16)&mask.at(16), block.at(24)&mask.at(24))
		text = text[n:]
	}
}

// takeNumbers takes the numbers of the n characters from i on, and the text between them.
func (t *textHash) takeNumbers(src []byte, i, n int) {
	t.anyNumber = 0
	for block := 0; block*blockSize < n; block++ {
		at, number := i+block*blockSize, t.number[block]
		if t.from > at { // a number of the block before ends here
			number &= ^uint64(0) << (t.from - at)
		}
		for number != 0 {
			if blockwise && at+blockSize+mixSize <= cap(src) {
				var end int
				number, end = takeShort(t, &src[at], &src[t.from], number)
				if t.from = at + end; number == 0 {
					break
				}
			}
			start := bits.TrailingZeros64(number)
			end := start + bits.TrailingZeros64(^(number >> start))
			number &= ^uint64(0) << end
			t.takeWords(src[t.from : at+start])
			if t.from = at + end; end >= blockSize-1 { // it may go on
				t.from = numberEnd(src, at+end-1)
			}
			t.takeNumber(src[at+start : t.from])
		}
	}
}

// numberEnd returns where the number that begins at i ends. A number is a run of digits, with single separators between
// digits.
func numberEnd[T string | []byte](text T, i int) int {
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case isDigit(c):
		case (c == '.' || c == ',' || c == '\'') && isDigit(text[i-1]) && i+1 < len(text) && isDigit(text[i+1]):
		default:
			return i
		}
	}
	return i
}

// takeNumber adds a number to the hash of all numbers, and if it counts, to the hash of those that count.
func (t *textHash) takeNumber(number []byte) {
	hash, counts := t.readNumber(number)
	t.all = mix(t.all, hash, hash)
	for _, known := range t.inURL[:t.known] {
		if hash == known {
			counts = false
		}
	}
	with, without := mix(t.numbers, hash, hash), t.numbers
	if !counts {
		with = without
	}
	t.numbers = with
}

// readNumber returns the hash of a number, and whether the number counts: whether pages that differ in it are
// different. Days, times and years do not count: numbers of 1, 2 or 4 digits, and dates with two dots. Nor do fractions
// of one ("took 0.0713 s"). Only rare branches depend on the number, because the processor cannot predict them.
func (t *textHash) readNumber(number []byte) (hash uint64, counts bool) {
	block, mask := t.load(number[:min(len(number), mixSize/2)])
	x, y := block.at(0)&mask.at(0), block.at(8)&mask.at(8)
	hash = mix(textPrime, x, y)
	if len(number) > mixSize/2 {
		hash = xxhash.Sum64(number)
	}
	// Digits have the bits 0x30, separators only 0x20 of them, and bytes after the end are 0.
	separators := (x&^(x<<1) | y&^(y<<1)) & (ones << 5)
	counts = !isSmall(len(number))
	isFraction := uint16(x)|('.'^',')<<8 == '0'|'.'<<8
	if separators != 0 {
		counts = !isFraction
	}
	if separators&(separators-1) != 0 && isDate(number) {
		counts = false
	}
	return hash, counts
}

// isSmall reports whether a number of so many digits may be a day or a year.
func isSmall(digits int) bool { return 1<<digits&(1<<1|1<<2|1<<4) != 0 }

// isDate reports whether a number is a date with two dots.
func isDate(number []byte) bool {
	dots, group := 0, 0
	for _, c := range number {
		switch {
		case isDigit(c):
			group++
		case c == '.' && isSmall(group):
			dots++
			group = 0
		default:
			return false
		}
	}
	return dots == 2 && isSmall(group)
}

// isAddress reports whether src begins with a link text that is the address of the link itself. A name alone, as in a
// list of files, is not taken for an address.
func (t *textHash) isAddress(src []byte) bool {
	if !bytes.HasPrefix(src, t.href) || !bytes.ContainsAny(t.href, "/?;") {
		return false
	}
	for src = src[len(t.href):]; len(src) > 0 && isSpace(src[0]); {
		src = src[1:]
	}
	return len(src) == 0 || src[0] == '<'
}

// text is the hash of words, numbers that count, and sources.
func (t *textHash) text() uint64 { return mixIn(t.withoutNumbers(), t.numbers) }

// withoutNumbers is the hash of words and sources.
func (t *textHash) withoutNumbers() uint64 { return mixIn(mix(t.sum, t.other, t.other), t.sources) }

// visible is the hash of words and all numbers.
func (t *textHash) visible() uint64 { return mixIn(mix(t.sum, t.other, t.other), t.all) }

// mixIn adds a hash to another, unless it is 0, which is the hash of nothing.
func mixIn(sum, more uint64) uint64 {
	if more == 0 {
		return sum
	}
	return mix(sum, more, more)
}

// mixBlock adds a block of text to the hash of words.
func (r *blockReader) mixBlock(block []byte) {
	sum, other := r.sum, r.other
	block = block[:blockSize]
	sum = mix(sum, binary.LittleEndian.Uint64(block), binary.LittleEndian.Uint64(block[8:]))
	other = mix(other, binary.LittleEndian.Uint64(block[16:]), binary.LittleEndian.Uint64(block[24:]))
	r.sum = mix(sum, binary.LittleEndian.Uint64(block[32:]), binary.LittleEndian.Uint64(block[40:]))
	r.other = mix(other, binary.LittleEndian.Uint64(block[48:]), binary.LittleEndian.Uint64(block[56:]))
}

// mix adds 16 bytes to a hash.
func mix(sum, x, y uint64) uint64 {
	hi, lo := bits.Mul64(x^sum, y^textPrime)
	return hi ^ lo
}

const mixSize = 32

type mixBytes [mixSize]byte

func (b *mixBytes) at(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// load returns mixSize bytes that begin with a text, and the mask of the bytes that belong to the text, which has at
// most mixSize. It has no branch for each length, because the processor would predict that wrong.
func (r *blockReader) load(text []byte) (block, mask *mixBytes) {
	mask = (*mixBytes)(textMask[mixSize-len(text):])
	if cap(text) >= mixSize {
		return (*mixBytes)(text[:mixSize]), mask
	}
	copy(r.last[:], text)
	return &r.last, mask
}

var textMask = func() (mask [2 * mixSize]byte) {
	for i := range mixSize {
		mask[i] = 0xff
	}
	return mask
}()
