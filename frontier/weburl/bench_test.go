package weburl

import "testing"

// benchRefs are links as pages have them, by their shape.
var benchRefs = []struct{ name, ref string }{
	{"path", "/wiki/Category:Programming_languages"},
	{"relative", "article-12345.html"},
	{"parent", "../images/photo-2024.html"},
	{"query", "?page=2&sort=price_asc"},
	{"fragment", "#comments"},
	{"same-origin", "https://www.example.com/products/shoes/running?color=red&size=42"},
	{"other-host", "https://cdn.static.example.net/assets/2024/06/report.pdf"},
	{"escaped", "/wiki/%D0%9F%D0%B8%D1%82%D0%B5%D1%80"},
	{"mailto", "mailto:somebody@example.com"},
	// From here on the complete parser has to work.
	{"lower-hex", "/wiki/%d0%9f%d0%b8%d1%82%d0%b5%d1%80"},
	{"space", "/files/annual report 2024.pdf"},
	{"upper-host", "https://WWW.Example.com/products"},
	{"unicode-path", "/wiki/Питер"},
	{"unicode-host", "https://bücher.example/a"},
}

func benchBase(b *testing.B) URL {
	base, err := Parse("https://www.example.com/products/shoes/index.html?ref=home")
	if err != nil {
		b.Fatal(err)
	}
	return base
}

func BenchmarkResolve(b *testing.B) {
	base := benchBase(b)
	for _, c := range benchRefs {
		b.Run("ref="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = base.Resolve(c.ref)
			}
		})
	}
}

func BenchmarkAppendResolve(b *testing.B) {
	base := benchBase(b)
	buf := make([]byte, 0, 256)
	for _, c := range benchRefs {
		ref := []byte(c.ref)
		b.Run("ref="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = base.AppendResolve(buf, ref)
			}
		})
	}
}

func BenchmarkFromCanonical(b *testing.B) {
	text := benchBase(b).String()
	b.ReportAllocs()
	for b.Loop() {
		FromCanonical(text)
	}
}

func BenchmarkKey(b *testing.B) {
	u := benchBase(b)
	h := NewHasher(1)
	host := h.HostID(u.Host())
	text := []byte(u.String())
	b.Run("of=url", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Key(u)
		}
	})
	b.Run("of=text", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.KeyOf(host, text)
		}
	})
}

// BenchmarkRegistrableDomain is what HostID costs more for a host it has not
// seen lately.
func BenchmarkRegistrableDomain(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		RegistrableDomain("www.example.com")
	}
}

func BenchmarkHostID(b *testing.B) {
	h := NewHasher(1)
	for _, host := range []string{"www.example.com", "a.b.example.co.uk", "192.168.10.20", "somebody.github.io"} {
		b.Run("host="+host, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.HostID(host)
			}
		})
	}
}
