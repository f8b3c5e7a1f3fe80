package testweb

import (
	"fmt"
	"strconv"
)

const (
	fillerSize = 1 << 16
	// paragraph is the longest run of text without a paragraph break, and so how
	// far the filler must reach beyond fillerSize.
	paragraph = 1 << 10
	parBreak  = "</p>\n<p>"
)

// Words of one length, so that a word is found by its number without a table.
const (
	wordLen   = 6
	wordCount = 128
	wordList  = "almondambersanchorarcadeartistautumnbakerybambooballadbarleybasaltbeacon" +
		"bottlebranchbreezebridgebronzebucketbutterbuttoncanarycanvascandlecastle" +
		"caverncellarcherrycirclecloverclosetcoffeecoppercottoncradlecuckoodaring" +
		"dinghydragoneffectelevenembersenginefabricfalconfamousfinderflowerforest" +
		"fringefrostygalaxygallopgardenglidergoldengravelhammerharborhazardhelmet" +
		"heraldhollowislandjacketjunglekettlekittenlagoonladderlegendlemonsletter" +
		"magnetmarblemeadowmirrormodestmosaicmuseumneedlenickelnobodyoraclepalace" +
		"pebblepepperpiratepocketpurplerabbitravensribbonrocketsaddlesailorsalmon" +
		"secretshadowsilverspiritspringstablestatuestreamsummersunsettablettemple" +
		"threadtickettimbertunnelturtlevelvetvioletvoyagewalnutwillowwindowwinter" +
		"wizardyellowzephyrcastordahliaeasterfiddleginger"
)

func word(x uint64) string {
	at := int(x%wordCount) * wordLen
	return wordList[at : at+wordLen]
}

// filler is prose made once from the seed; the text of pages is cut from it.
type filler []byte

func newFiller(seed uint64, numbers bool) filler {
	r := rng(mix(seed ^ 0xf111e7))
	f := make(filler, 0, fillerSize+paragraph+64)
	for left, n := 0, 0; len(f) < fillerSize+paragraph; left, n = left-1, n+1 {
		if left == 0 {
			left = 5 + r.intn(12)
			if len(f) > 0 {
				f = append(f[:len(f)-1], ". "...)
			}
			f = append(f, word(r.next())...)
			f[len(f)-wordLen] -= 'a' - 'A'
			f = append(f, ' ')
			continue
		}
		if numbers && n%3 == 2 {
			f = appendNumber(f, r.next())
			f = append(f, ' ')
			continue
		}
		switch r.intn(8) {
		case 0:
			f = append(f, "the "...)
		case 1:
			f = append(f, "and "...)
		case 2:
			f = append(f, "of "...)
		case 3:
			f = append(f, "in "...)
		}
		f = append(f, word(r.next())...)
		f = append(f, ' ')
	}
	return f
}

// appendNumber appends a number of one to six digits, or one time in four a price.
func appendNumber(dst []byte, x uint64) []byte {
	if x%4 == 0 {
		return fmt.Appendf(dst, "$%d.%02d", x>>8%1000, x>>32%100)
	}
	digits := [...]uint64{10, 100, 1000, 10_000, 100_000, 1_000_000}
	return strconv.AppendUint(dst, x>>8%digits[x>>4%6], 10)
}

// appendText appends exactly n bytes of prose, taken from position at on, with paragraph breaks inside when n is long.
// It assumes an open <p>. Of two generations, one soon after the other, no words are the same.
func (f filler) appendText(dst []byte, at uint64, n, gen int) []byte {
	for n > 0 {
		run := min(n, paragraph)
		o := at % fillerSize
		dst = append(dst, f[o:o+uint64(run)]...)
		if gen > 0 {
			rotate(dst[len(dst)-run:], byte(gen%25)+1)
		}
		at += uint64(run)
		n -= run
		if n >= len(parBreak) {
			dst = append(dst, parBreak...)
			n -= len(parBreak)
		}
	}
	return dst
}

// rotate replaces each letter by the one so many places later in the alphabet.
func rotate(text []byte, places byte) {
	for i, c := range text {
		switch {
		case c >= 'a' && c <= 'z':
			text[i] = 'a' + (c-'a'+places)%26
		case c >= 'A' && c <= 'Z':
			text[i] = 'A' + (c-'A'+places)%26
		}
	}
}

// appendWords appends two words chosen by x.
func appendWords(dst []byte, x uint64) []byte {
	dst = append(dst, word(x)...)
	dst = append(dst, ' ')
	return append(dst, word(x>>8)...)
}

// appendTitle appends the title of a page: two words, the first with a capital,
// and a number that makes it the page's own.
func appendTitle(dst []byte, hash uint64, node int) []byte {
	at := len(dst)
	dst = appendWords(dst, hash)
	dst[at] -= 'a' - 'A'
	dst = append(dst, ", no. "...)
	return strconv.AppendInt(dst, int64(node), 10)
}

// appendTitleChange appends what a title has since it changed in a generation; nothing if it did not.
func appendTitleChange(dst []byte, gen int) []byte {
	if gen == 0 {
		return dst
	}
	dst = append(dst, " as of "...)
	return strconv.AppendInt(dst, int64(gen), 10)
}
