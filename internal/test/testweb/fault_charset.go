package testweb

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

// Charsets adds pages in other encodings than UTF-8, which are told by header, byte
// order mark or meta element. Each links to a page whose path is not ASCII, which is
// only found by those who decoded it right.
type Charsets struct{}

func (Charsets) Kind() string { return "charsets" }

func (Charsets) validate(Config) error { return nil }

func (Charsets) install(p *plan, _ *web) {
	const meta = "<meta http-equiv=\"Content-Type\" content=\"text/html; charset="
	utf16 := func(e unicode.Endianness) encoding.Encoding { return unicode.UTF16(e, unicode.UseBOM) }
	for _, c := range []struct {
		name  string
		enc   encoding.Encoding
		label string // in the header
		meta  string
		title string
		slug  string
	}{
		{"latin1", charmap.ISO8859_1, "iso-8859-1", "", "Crème brûlée à Noël", "café"},
		{"windows-1251", charmap.Windows1251, "windows-1251", "", "Привет, мир", "страница"},
		{"shift-jis", japanese.ShiftJIS, "Shift_JIS", "", "日本語のページ", "東京"},
		{"utf-16le", utf16(unicode.LittleEndian), "", "", "Grüße in UTF-16", "straße"},
		{"utf-16be", utf16(unicode.BigEndian), "", "", "Ελληνικά", "σελίδα"},
		{"meta-charset", charmap.Windows1252, "", "<meta charset=windows-1252>", "Señor Muñoz", "mañana"},
		{"meta-http-equiv", japanese.EUCJP, "", meta + "euc-jp\">", "かな", "かな"},
		{"bom-over-header", unicode.UTF8BOM, "iso-8859-1", "", "Smørrebrød", "brød"},
	} {
		uri := "/charset/" + c.name
		page := "<!DOCTYPE html>\n<html>\n<head>\n" + c.meta + "<title>" + c.title + "</title>\n</head>\n<body>\n" +
			anchors(uri+"/"+c.slug) + "</body>\n</html>\n"
		body, err := c.enc.NewEncoder().String(page)
		if err != nil {
			panic(err) // the table above holds a character its encoding has not
		}
		contentType := "text/html"
		if c.label != "" {
			contentType += "; charset=" + c.label
		}
		inside := uri + "/" + escapePath(c.slug)
		l := bodyLeaf(uri, contentType, "", body)
		l.verdict = func(Crawl) verdict { return ok(c.title) }
		l.links = follow(inside)
		p.add(l, pageLeaf(inside, "Decoded right"))
	}
}

// escapePath writes a path segment as a canonical URL has it.
func escapePath(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 0x80 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
