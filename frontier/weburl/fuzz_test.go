package weburl

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"pgregory.net/rapid"
)

// refs are seeds for the fuzz targets, and inputs for the tests that want many
// shapes of reference.
var refs = []string{
	"", "#", "#top", "?", "?a=b", "?a=b#c", "?a='b'", "/", "/a/b.html", "/a/./b", "/a/../b", "/..", "/...", "/.a/..b",
	"//other.example/x", "//other.example", "///x", "/\\x", "\\x", "a", "a/b/../c", "./a", "../a", "../../a", "..", ".",
	"..?q", ".#f",
	"./..//a", "..a", ".../a", "%2e%2E/a", ".%2e/a", "a/%2e", "a%2fb", "a%2Fb", "a%41", "a%7e", "%%32e", "%4%31",
	"%%34%31", "%", "%2", "a%zz",
	"http:a", "http:/a", "http:", "https:a", "http:?q", "http://", "http://?q", "http://a", "http://a#b", "http://a?b",
	"HTTP://A/",
	"http://example.com/", "http://example.com/x", "https://example.com/x", "http://example.comx/",
	"http://example.com.", "http://example.com./a",
	"http://example.com:80/", "https://example.com:443/", "http://example.com:443/", "http://example.com:8080/a",
	"http://example.com:08080/a",
	"http://example.com:", "http://example.com:/a", "http://example.com:65535/", "http://example.com:65536/",
	"http://example.com:1a/",
	"http://user@example.com/", "http://u:p@example.com/a", "http://@example.com/", "http://a@b@c/", "http://:80/",
	"http://1.2.3.4/", "http://1.2/", "http://0x7f.1/", "http://017700000001", "http://256/", "http://1.2.3.256/",
	"http://a.1/", "http://1.a/", "http://0x/", "http://1.2.3.4./",
	"http://[::1]/", "http://[::1]:8080/a", "http://[1:0:0:2::3]/", "http://[::ffff:1.2.3.4]/", "http://[::1",
	"http://[::1%25a]/", "http:[::[]", "http://[[::1]]/", "http://[::]]",
	"http://b\u00fccher.example/", "http://xn--bcher-kva.example/", "http://xn--a/", "http://xn--.\u00df/",
	"http://\u1e9e/", "http://%62%C3%BC/", "http://a%00b/", "http://a b/", "http://a_b/", "http://-/",
	"mailto:x@example.com", "javascript:void(0)", "java\tscript:x", "tel:1", "a:b", "1:2", "./a:b", "/a:b", ":a",
	"data:,x",
	" /a ", "\t/a\n", "/a\tb", "/a\nb", "/a b", "/\u00e9?\u00e9#\u00e9", "/\xff?\xff", "/a^b`{}|", "?^`{}|<>\"",
	"/<>\"'", "/\x7f", "\x00a\x1f",
	"/a;b=c,d:e@f!$&()*+=", "/a//b//", "//a//b", "http://./a", "http://../a", "http://a../a", "http://.a/", "/a?b?c",
	"/a?b/../c", "/a#b/../c?d",
}

var bases = []string{
	"", "http://example.com/", "http://example.com/a/b/c.html?q=1", "https://example.com:8443/a//b/", "http://[::1]/x",
	"http://h/?",
}

func addRefs(f *testing.F) {
	for _, b := range bases {
		for _, r := range refs {
			f.Add(b, r)
		}
	}
}

// A fataler is a test of package testing or rapid.
type fataler interface {
	Fatalf(format string, args ...any)
}

// baseOf reads a base of a test, which may be empty.
func baseOf(raw string) (URL, bool) {
	if raw == "" {
		return URL{}, true
	}
	u, err := URL{}.resolveSlow(raw)
	return u, err == nil
}

// TestTokens runs the checks of the fuzz targets on references made of the
// tokens that matter, which finds odd neighbours sooner than bytes do.
func TestTokens(t *testing.T) {
	tokens := []string{
		"/", "/", "//", "\\", ".", "..", "...", "%2e", "%2E", "?", "#", ":", "@", "[", "]", "%", "%4", "%41", "%2f",
		"%2F", "%C3%A9", "é", "\xff", " ", "\t", "\n",
		"http:", "https:", "HTTP:", "http://", "https://", "ftp:", "a", "b", "A", "1", "0", "0x", "80", ":80", ":443",
		":8080", "example.com", "http://example.com",
		"1.2.3.4", "[::1]", "[1::2]", "xn--", "-", "_", "~", "+", "=", "&", ";", "'", "^", "|", "{", "\"", "<", "\x00",
		"\x7f",
	}
	ref := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 0, 8).Draw(t, "tokens"), "")
	})
	base := rapid.SampledFrom(bases)
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			b, r := base.Draw(t, "base"), ref.Draw(t, "ref")
			checkFastPath(t, b, r)
			checkIdempotent(t, b, r)
		}
	})
	// The oracle has faults of its own, and not all are known: it is asked the same in every run. FuzzWhatwg looks for
	// more.
	oracle := whatwg.NewParser()
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		var r strings.Builder
		for range random.IntN(9) {
			r.WriteString(tokens[random.IntN(len(tokens))])
		}
		checkWhatwg(t, oracle, bases[random.IntN(len(bases))], r.String())
	}
}

// FuzzFastPath holds the splice to the complete parser.
func FuzzFastPath(f *testing.F) {
	addRefs(f)
	f.Fuzz(func(t *testing.T, base, ref string) { checkFastPath(t, base, ref) })
}

func checkFastPath(t fataler, rawBase, ref string) {
	base, ok := baseOf(rawBase)
	if !ok {
		return
	}
	want, wantErr := base.resolveSlow(ref)
	if got, err := base.Resolve(ref); got != want || err != wantErr {
		t.Fatalf("Resolve(%q, %q) = %+v, %v, the parser says %+v, %v", base, ref, got, err, want, wantErr)
	}
	out, outline, err := base.AppendResolve([]byte("x"), []byte(ref))
	if string(out) != "x"+want.text || err != wantErr || outline.URL(want.text) != want {
		t.Fatalf("AppendResolve(%q, %q) = %q, %v, the parser says %q, %v", base, ref, out, err, want, wantErr)
	}
}

// FuzzIdempotent checks that the canonical form is one: reading it again
// changes nothing, and neither does taking it apart.
func FuzzIdempotent(f *testing.F) {
	addRefs(f)
	f.Fuzz(func(t *testing.T, base, ref string) { checkIdempotent(t, base, ref) })
}

func checkIdempotent(t fataler, rawBase, ref string) {
	if u, ok := FromCanonical(ref); ok && u.Origin()+u.RequestURI() != ref {
		t.Fatalf("FromCanonical(%q) falls into %q and %q", ref, u.Origin(), u.RequestURI())
	}
	base, ok := baseOf(rawBase)
	if !ok {
		return
	}
	u, err := base.Resolve(ref)
	if err != nil {
		if u != (URL{}) {
			t.Fatalf("Resolve(%q, %q) fails with %v and returns %q", base, ref, err, u)
		}
		return
	}
	if again, err := Parse(u.String()); again != u || err != nil {
		t.Fatalf("%q reads as %q, %v", u, again, err)
	}
	if again, err := (URL{}).resolveSlow(u.String()); again != u || err != nil {
		t.Fatalf("%q reads as %q, %v by the parser", u, again, err)
	}
	if again, ok := FromCanonical(u.String()); again != u || !ok {
		t.Fatalf("FromCanonical(%q) = %+v, %v, want %+v", u, again, ok, u)
	}
	// Two slashes in front would begin an authority.
	if again, err := u.Resolve(u.RequestURI()); !strings.HasPrefix(u.Path(), "//") && (again != u || err != nil) {
		t.Fatalf("%q relative to itself is %q, %v", u.RequestURI(), again, err)
	}
	checkForm(t, u)
}

// checkForm checks what must be true of every canonical URL.
func checkForm(t fataler, u URL) {
	origin := u.Scheme() + "://" + u.Host()
	if u.Port() != "" {
		origin += ":" + u.Port()
	}
	if u.Origin() != origin || u.Origin()+u.RequestURI() != u.String() {
		t.Fatalf("%q does not fall into its parts", u)
	}
	if !strings.HasPrefix(u.Path(), "/") || u.Host() == "" {
		t.Fatalf("%q lacks host or path", u)
	}
	for seg := range strings.SplitSeq(u.Path(), "/") {
		if dots(seg) > 0 {
			t.Fatalf("%q has a dot segment", u)
		}
	}
	s := u.String()
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' {
			t.Fatalf("%q holds the byte %#x", s, c)
		}
		if c, ok := escapeAt(s, i); ok && (s[i+1] >= 'a' || s[i+2] >= 'a') {
			t.Fatalf("%q holds a lower-case escape of %#x", s, c)
		}
	}
}

// FuzzWhatwg compares the WHATWG step with another implementation of the
// standard.
func FuzzWhatwg(f *testing.F) {
	addRefs(f)
	oracle := whatwg.NewParser()
	f.Fuzz(func(t *testing.T, base, ref string) { checkWhatwg(t, oracle, base, ref) })
}

func checkWhatwg(t fataler, oracle whatwg.Parser, base, ref string) {
	if oracleDiffers(base) || oracleDiffers(ref) {
		return
	}
	parse := oracle.Parse
	if base != "" {
		b, err := oracle.Parse(base)
		if err != nil || b.Scheme() != "http" && b.Scheme() != "https" {
			return
		}
		parse = b.Parse
	}
	got, err := resolveAsStandard(base, ref)
	want, wantErr := parse(ref)
	if wantErr == nil && want.Scheme() != "http" && want.Scheme() != "https" {
		wantErr = ErrScheme
	}
	if judgesHostOtherwise(base+ref) && ((err != nil) != (wantErr != nil) || err == nil &&
		mustHost(t, got) != want.Hostname()) {
		return
	}
	if (err != nil) != (wantErr != nil) || err == nil && got != want.Href(false) {
		t.Fatalf("resolveAsStandard(%q, %q) = %q, %v, want %v, %v", base, ref, got, err, want, wantErr)
	}
}

func mustHost(t fataler, href string) string {
	u, err := Parse(href)
	if err != nil {
		t.Fatalf("Parse(%q) = %v", href, err)
	}
	return u.Host()
}

// oracleDiffers names where the oracle follows an older standard, or none.
func oracleDiffers(s string) bool {
	return !utf8.ValidString(s) || // it keeps broken bytes
		strings.Contains(s, "^") || // not escaped in paths until 2023
		// it trims any number of brackets of either kind off both ends of a host
		strings.Count(s, "[") > 1 || strings.Count(s, "]") > 1
}

// judgesHostOtherwise reports whether the oracle may see a host name in s
// otherwise: it has older tables for international names, judges "xn--" labels
// even in names that are ASCII, and takes signs inside IPv4 numbers.
func judgesHostOtherwise(s string) bool {
	s = strings.ToLower(percentDecode(removeTabNewline(s)))
	return !isASCII(s) || strings.Contains(s, "xn--") || signedNumber.MatchString(s)
}

var signedNumber = regexp.MustCompile(`[-+][0-9a-f]`)
