package fetch

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func TestCharset(t *testing.T) {
	sjis, _ := japanese.ShiftJIS.NewEncoder().String("日本語")
	jis, _ := japanese.ISO2022JP.NewEncoder().String("日本語")
	utf16, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("<p>日本語")
	utf16be, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String("<p>日本語")
	filler := strings.Repeat("<!-- plain -->", 100)
	late := `<html><head><title>t</title><script>"<meta charset=koi8-r><p>"</script>` + filler +
		`<meta name=a content="charset=koi8-r">`
	lateMeta := late + `<meta charset=windows-1251>`
	lateType := late + `<meta content="text/html; charset=shift_jis" http-equiv=content-type>`
	lateJIS := late + `<meta charset=iso-2022-jp>`
	inBody := filler + `<body><p>text</p><meta charset=windows-1251>`
	tests := []struct{ name, contentType, body, want, charset string }{
		{"header utf-8", "text/html; charset=utf-8", "é", "é", "utf-8"},
		{"header utf-8 in quotes", `text/html; charset="UTF-8"`, "é", "é", "utf-8"},
		{"header latin", "text/html; charset=iso-8859-1", "\xe9\x80", "é€", "windows-1252"},
		{"header latin, plain text", "text/html; charset=iso-8859-1", "abc", "abc", "windows-1252"},
		{"header over meta", "text/html; charset=utf-8", `<meta charset="windows-1251">é`,
			`<meta charset="windows-1251">é`, "utf-8"},
		{"mark over header", "text/html; charset=windows-1251", "\xef\xbb\xbfé", "é", "utf-8"},
		{"mark alone", "text/html", "\xef\xbb\xbfabc", "abc", "utf-8"},
		{"UTF-16 by its mark", "text/html", utf16, "<p>日本語", "utf-16le"},
		{"UTF-16 by the header", "text/html; charset=utf-16be", utf16be, "<p>日本語", "utf-16be"},
		{"meta", "text/html", `<meta charset=windows-1251>` + "\xcf\xf0\xe8", `<meta charset=windows-1251>При`,
			"windows-1251"},
		{"meta http-equiv", "text/html", `<META http-equiv=Content-Type content="text/html; CHARSET=Shift_JIS">` + sjis,
			`<META http-equiv=Content-Type content="text/html; CHARSET=Shift_JIS">日本語`, "shift_jis"},
		{"meta utf-8", "text/html", `<meta charset="utf-8">é`, `<meta charset="utf-8">é`, "utf-8"},
		{"escapes", "text/html; charset=iso-2022-jp", jis, "日本語", "iso-2022-jp"},
		{"nothing said, utf-8", "text/html", filler + "é", filler + "é", "utf-8"},
		{"nothing said, latin", "text/html", filler + "\xe9 ", filler + "é ", "windows-1252"},
		{"late meta", "text/html", lateMeta + "\xcf\xf0\xe8", lateMeta + "При", "windows-1251"},
		{"late meta http-equiv", "text/html", lateType + sjis, lateType + "日本語", "shift_jis"},
		{"late meta of escapes", "text/html", lateJIS + jis, lateJIS + "日本語", "iso-2022-jp"},
		{"late meta says UTF-16", "text/html", late + "<meta charset=utf-16>é\xff", late +
			"<meta charset=utf-16>é\uFFFD", "utf-8"},
		{"late meta in the body", "text/html", inBody + "\xe9 ", inBody + "é ", "windows-1252"},
		{"late meta of utf-8", "text/html", filler + "<meta charset=windows-1251>é", filler +
			"<meta charset=windows-1251>é", "utf-8"},
		{"meta says latin of utf-8", "text/html", `<meta charset=iso-8859-1>é`, `<meta charset=iso-8859-1>é`, "utf-8"},
		{"unknown in header", "text/html; charset=klingon", "é", "é", "utf-8"},
		{"broken utf-8", "text/html; charset=utf-8", "a\xffb\xe2\x82c€\xe2", "a\uFFFDb\uFFFD\uFFFDc€\uFFFD", "utf-8"},
		{"replacement character is itself", "text/html; charset=utf-8", "a\uFFFDb\xff", "a\uFFFDb\uFFFD", "utf-8"},
		{"much that is broken", "text/html; charset=utf-8", strings.Repeat("\xff", 300000),
			strings.Repeat("\uFFFD", 300000), "utf-8"},
		{"empty", "text/html; charset=windows-1251", "", "", "windows-1251"},
		{"large and broken", "text/html; charset=utf-8", strings.Repeat("é\xff", 500000),
			strings.Repeat("é\uFFFD", 500000), "utf-8"},
		{"large with escapes", "text/html; charset=iso-2022-jp", strings.Repeat(jis, 120000),
			strings.Repeat("日本語", 120000), "iso-2022-jp"},
		{"large", "text/html; charset=windows-1251", strings.Repeat("\xcf", 1500000), strings.Repeat("П", 1500000),
			"windows-1251"},
	}
	c := newClient(t, Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = io.WriteString(w, tt.body)
			})
			res, err := get(t, c, s.URL)
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Body) != tt.want || res.Charset != tt.charset || res.DecodedLength != int64(len(tt.body)) {
				t.Errorf("%.80q (%s, %d bytes), want %.80q (%s)", res.Body, res.Charset, res.DecodedLength, tt.want,
					tt.charset)
			}
			res.Close()
			if free := c.buffers.budget.free; free != c.opts.MaxMemory {
				t.Errorf("%d bytes of the budget are free, want all %d", free, c.opts.MaxMemory)
			}
		})
	}
}

// FuzzCharset checks that any page becomes UTF-8.
func FuzzCharset(f *testing.F) {
	f.Add("text/html; charset=shift_jis", []byte("\x93\xfa<meta charset=utf-16>"))
	f.Add("text/html", []byte("\xff\xfe<\x00p\x00"))
	f.Add("text/html", []byte("<meta charset=iso-2022-kr>\x1b$)C"))
	c, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		out := Response{buffers: c.buffers, memory: holding{share: c.account}}
		out.buffer = c.buffers.get(&out.memory)
		out.buffer.b = append(out.buffer.b, body...)
		defer out.Close()
		got, name, err := c.toUTF8(&call{parent: t.Context()}, &out, contentType)
		if err != nil || !utf8.Valid(got) || name == "" {
			t.Fatalf("%q (%s), %v", got, name, err)
		}
	})
}
