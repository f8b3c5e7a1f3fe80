package weburl

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A meaning is all that a server can know of a URL. An atom is one byte of it:
// a character, or a byte that has to be escaped.
type meaning struct {
	scheme, host, port string
	segments           [][]atom
	query              []atom
	hasQuery           bool
}

type atom struct {
	c       byte
	escaped bool
}

// Characters that stand for themselves in paths and queries alike, and bytes
// that mean something else when they are escaped, or cannot stand there at all.
const (
	literal = "abcXYZ019-._~!$&()*+,;=:@[]|"
	escaped = "\x00 \"#%'/<>?[\\]^`{|}\x7f\x80\xff&=+;"
)

func drawAtoms(t *rapid.T, label string) []atom {
	one := rapid.Custom(func(t *rapid.T) atom {
		if rapid.Bool().Draw(t, "escaped") {
			return atom{rapid.SampledFrom([]byte(escaped)).Draw(t, "byte"), true}
		}
		return atom{rapid.SampledFrom([]byte(literal)).Draw(t, "char"), false}
	})
	return rapid.SliceOfN(one, 0, 6).Draw(t, label)
}

func drawMeaning(t *rapid.T) meaning {
	m := meaning{
		scheme:   rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme"),
		host:     rapid.SampledFrom([]string{"example.com", "example.com.", "a.b-c.example", "127.0.0.1", "[::1]", "xn--bcher-kva.example"}).Draw(t, "host"),
		port:     rapid.SampledFrom([]string{"", "8080", "81"}).Draw(t, "port"),
		hasQuery: rapid.Bool().Draw(t, "has query"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		seg := drawAtoms(t, "segment")
		if dots(string(appendAtoms(nil, seg))) > 0 {
			seg = append(seg, atom{c: 'x'}) // a dot segment has no meaning of its own
		}
		m.segments = append(m.segments, seg)
	}
	if m.hasQuery {
		m.query = drawAtoms(t, "query")
	}
	return m
}

func appendAtoms(dst []byte, atoms []atom) []byte {
	for _, a := range atoms {
		if a.escaped {
			dst = appendEscape(dst, a.c)
		} else {
			dst = append(dst, a.c)
		}
	}
	return dst
}

// canonical writes m in its one form. Two meanings never share one.
func (m meaning) canonical() string {
	b := []byte(m.scheme + "://" + m.host)
	if m.port != "" {
		b = append(b, ":"+m.port...)
	}
	for _, s := range m.segments {
		b = appendAtoms(append(b, '/'), s)
	}
	if m.hasQuery {
		b = appendAtoms(append(b, '?'), m.query)
	}
	return string(b)
}

// noisy writes m with everything that makes no difference chosen at random.
func (m meaning) noisy(t *rapid.T) string {
	chance := func() bool { return rapid.IntRange(0, 4).Draw(t, "noise") == 0 }
	hex := func(b []byte, c byte) []byte {
		digits := upperHex
		if chance() {
			digits = strings.ToLower(upperHex)
		}
		return append(b, '%', digits[c>>4], digits[c&15])
	}
	atoms := func(b []byte, atoms []atom) []byte {
		for _, a := range atoms {
			if a.escaped || unreserved[a.c] && chance() {
				b = hex(b, a.c)
			} else {
				b = append(b, a.c)
			}
		}
		return b
	}
	var b []byte
	pick := func(s ...string) { b = append(b, rapid.SampledFrom(s).Draw(t, "pick")...) }

	pick("", " ", "\n\t")
	pick(m.scheme, strings.ToUpper(m.scheme))
	pick(":")
	pick("//", "//", `\\`, "///")
	pick("", "", "user@", "user:p%40ss@", ":@")
	pick(m.host, strings.ToUpper(m.host))
	switch {
	case m.port != "":
		pick(":"+m.port, ":0"+m.port)
	case m.scheme == "http":
		pick("", ":", ":80")
	default:
		pick("", ":443", ":0443")
	}
	for _, s := range m.segments {
		pick("/", "/", `\`)
		for chance() {
			pick("./", "%2e/", "x/../", "y%2F/.%2E/")
		}
		b = atoms(b, s)
	}
	if m.hasQuery {
		b = atoms(append(b, '?'), m.query)
	}
	pick("", "", "#", "#frag/../%zz?")
	pick("", " ", "\r\n")
	return string(b)
}

// One meaning has one form however it is written, and since the form is read
// off the meaning, two meanings have two.
func TestOneFormPerMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeaning(t)
		raw := m.noisy(t)
		u, err := Parse(raw)
		if err != nil {
			t.Fatalf("Parse(%q) = %v", raw, err)
		}
		if want := m.canonical(); u.String() != want {
			t.Fatalf("Parse(%q) = %q, want %q", raw, u, want)
		}
	})
}

// What a server may tell apart stays apart.
func TestMaterialDifferences(t *testing.T) {
	for _, pair := range [][2]string{
		{"http://example.com/", "https://example.com/"},
		{"http://example.com/", "http://example.com:8080/"},
		{"http://example.com/", "http://www.example.com/"},
		{"http://example.com/", "http://example.com./"},
		{"http://example.com/a", "http://example.com/A"},
		{"http://example.com/a", "http://example.com/a/"},
		{"http://example.com/a/b", "http://example.com/a//b"},
		{"http://example.com/a/b", "http://example.com/a%2Fb"},
		{"http://example.com/a", "http://example.com/a?"},
		{"http://example.com/a;b", "http://example.com/a%3Bb"},
		{"http://example.com/a+b", "http://example.com/a%20b"},
		{"http://example.com/a+b", "http://example.com/a%2Bb"},
		{"http://example.com/%41", "http://example.com/%2541"},
		{"http://example.com/%%32e", "http://example.com/%2e"},
		{"http://example.com/?a&b", "http://example.com/?b&a"},
		{"http://example.com/?a", "http://example.com/?a="},
		{"http://example.com/?a", "http://example.com/?a&"},
		{"http://example.com/?a&a", "http://example.com/?a"},
		{"http://example.com/?a&b", "http://example.com/?a%26b"},
		{"http://example.com/?q=X", "http://example.com/?q=x"},
		{"http://example.com/index.html", "http://example.com/"},
		{"http://127.0.0.1/", "http://localhost/"},
		{"http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"},
	} {
		a, b := mustParse(t, pair[0]), mustParse(t, pair[1])
		if a == b {
			t.Errorf("%q and %q are one, %q", pair[0], pair[1], a)
		}
	}
}
