package parser

import (
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

// TestQueryEncoding makes sure that queries are sent as browsers send them from
// pages in an old encoding.
func TestQueryEncoding(t *testing.T) {
	p := newParser(t, Options{})
	for _, tt := range []struct{ href, want string }{
		{"/é?q=é&amp;r=x#é", "https://example.com/%C3%A9?q=%E9&r=x"},
		{"?q=日", "https://example.com/dir/page?q=%26%2326085%3B"},
		{"/é#?é", "https://example.com/%C3%A9"},
		{"/a?b=c", "https://example.com/a?b=c"},
	} {
		var pg Page
		parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte("<a href='" + tt.href + "'>"),
			Encoding: charmap.Windows1252})
		if got := pg.Links[0].URL.String(); got != tt.want {
			t.Errorf("%s in windows-1252 is %s, want %s", tt.href, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		enc  encoding.Encoding
		want string
	}{
		{"UTF-8", nil, "?q=%E6%97%A5%E6%9C%AC&x"},
		{"Shift_JIS", japanese.ShiftJIS, "?q=%93%FA%96{&x"},
		{"ISO-2022-JP", japanese.ISO2022JP, "?q=%1B$BF|K\\%1B(B&x"},
		{"UTF-16", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), "?q=%E6%97%A5%E6%9C%AC&x"},
	} {
		var pg Page
		parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte("<a href='?q=日本&amp;x'>"), Encoding: tt.enc})
		if got, want := pg.Links[0].URL.String(), "https://example.com/dir/page"+tt.want; got != want {
			t.Errorf("in %s it is %s, want %s", tt.name, got, want)
		}
	}
}
