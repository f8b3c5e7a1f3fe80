package robots

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

func wide(order binary.AppendByteOrder, text string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune("\uFEFF" + text)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// TestOddFiles reads files that editors and broken servers make.
func TestOddFiles(t *testing.T) {
	const text = "User-agent: *\r\nDisallow: /private\r\nDisallow: /ü\r\nSitemap: https://a.test/s.xml\r\n"
	for name, body := range map[string][]byte{
		"utf-8":                   []byte(text),
		"utf-8 with a mark":       []byte("\xef\xbb\xbf" + text),
		"utf-16 little endian":    wide(binary.LittleEndian, text),
		"utf-16 big endian":       wide(binary.BigEndian, text),
		"utf-16, a byte too many": append(wide(binary.LittleEndian, text), 'x'),
		"CR alone":                []byte(strings.ReplaceAll(text, "\r\n", "\r")),
		"an endless line first":   []byte(strings.Repeat("x", MaxSize/2) + "\n" + text),
		"an endless comment":      []byte("# " + strings.Repeat("\x00", MaxSize/2) + "\n" + text),
		"NULs between":            []byte(strings.ReplaceAll(text, "\r\n", "\r\n\x00\r\n")),
		"more than counts":        []byte(text + strings.Repeat("Allow: /private\n", MaxSize/10)),
		"utf-16, too large":       wide(binary.LittleEndian, text+strings.Repeat("# \u20ac\n", MaxSize)),
	} {
		f := Parse(body)
		r := f.Agent("mapwright")
		if name == "more than counts" {
			if !r.Match("/private").Allowed { // Allow wins a tie
				t.Errorf("%s: the rules within the limit do not count", name)
			}
			continue
		}
		if r.Match("/private/x").Allowed || r.Match("/%C3%BC").Allowed || !r.Match("/open").Allowed ||
			len(f.Sitemaps()) != 1 {
			t.Errorf("%s: %+v, %+v, sitemaps %q", name, r.Match("/private/x"), r.Match("/open"), f.Sitemaps())
		}
	}
}
