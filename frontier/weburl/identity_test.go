package weburl

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// TestIdentity fails when the suffix list changes. That is allowed only together
// with a note in the changelog: crawls that were begun before cannot be resumed.
func TestIdentity(t *testing.T) {
	want := "url=1 idna=" + idna.UnicodeVersion + " suffixes=2026-02-06/e8d1249e"
	if got := Identity(); got != want {
		t.Errorf("the identity is %q, want %q", got, want)
	}
}

// identityURLs has at least one URL for each rule of normalisation.
var identityURLs = []string{
	"http://example.com", "HTTP://EXAMPLE.com:80/", "https://example.com:443/", "http://example.com:443/",
	"https://example.com:0080/",
	"http://example.com./", "http://user:pass@example.com/#top", "http:example.com", "http:/\\example.com\\a\\b",
	"http://exa%6dple.com/",
	"\t http://example.com/a\tb\nc ", "http://example.com/a/./b/../c/", "http://example.com/a/%2e%2E/b",
	"http://example.com/../..",
	"http://example.com//a//b/", "http://example.com/%7euser/%3a%2F%c3%a9/é", "http://example.com/%zz%", "http://example.com/a b\"<>^`{|}",
	"http://example.com/?", "http://example.com/?a=1&B=2&a=%41%26", "http://example.com/?q='é' \"<>", "http://example.com?x#y?z",
	"http://example.com/;a=1/b;c", "http://example.com/?%ff%FE", "http://example.com/\xff", "http://example.com/Case/SENSITIVE",
	"http://bücher.example/", "http://BÜCHER。example/", "http://faß.de/", "http://xn--bcher-kva.example/", "http://XN--A/", "http://a\u00adb.example/",
	"http://☕.example/", "http://日本語.jp/", "http://ẞ.de/", "http://ü.xn--a/", "http://\u200d.example/", "http://אa.example/",
	"http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://017700000001/", "http://1.2.3.4.5/", "http://256.1.1.1/",
	"http://[::1]/", "http://[2001:DB8:0:0:1:0:0:1]:8080/", "http://[::ffff:1.2.3.4]/", "http://[::1/", "http://a_b.example/", "http://-a-.example/",
	"http://www.example.co.uk/", "http://a.b.kawasaki.jp/", "http://www.city.kawasaki.jp/", "http://somebody.github.io/", "http://co.uk/", "http://localhost/",
	"http://a..b/", "http://.a/", "http://a b/", "http://example.com:65536/", "http:///", "ftp://example.com/", "mailto:a@example.com", "/relative",
}

const identityEnv = "URLNORM_GOLDEN" // set: write the file of a new version

// TestIdentityOfURLs compares canonical forms and keys with those that this
// version of the rules had when it was introduced.
func TestIdentityOfURLs(t *testing.T) {
	name := filepath.Join("testdata", "identity", fmt.Sprintf("url-%d.txt", urlRules))
	var b strings.Builder
	h := NewHasher(0x0123456789abcdef)
	for _, text := range identityURLs {
		u, err := Parse(text)
		if err != nil {
			fmt.Fprintf(&b, "%+q refused\n", text)
			continue
		}
		fmt.Fprintf(&b, "%+q %s %x\n", text, u, h.Key(u).Append(nil))
	}
	if os.Getenv(identityEnv) != "" {
		if _, err := os.Stat(name); err == nil {
			t.Fatalf("%s exists: raise urlRules first", name)
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: a new version of the rules needs a new file, which %s=1 writes", err, identityEnv)
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s\nIf this change is wanted, raise urlRules: crawls that were begun before cannot be resumed then.", got[i], want[i])
		}
	}
}

// TestIdentityOfIDNA holds the results for every character to those that the
// tables of this Unicode version had when they were first used. A dependency
// may not change them under the same version.
func TestIdentityOfIDNA(t *testing.T) {
	digests := map[string]string{
		"15.0.0": "3c17ad7ebf7dc4bcbade676d5a8a89ead6cec9117288089feeece01d3a949110",
	}
	want, known := digests[idna.UnicodeVersion]
	if !known {
		t.Fatalf("the IDNA tables are those of Unicode %s, which is new: add its digest here and say in the changelog that crawls begun before cannot be resumed", idna.UnicodeVersion)
	}
	h := sha256.New()
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r++ {
		if r == 0x40000 {
			r = 0xe0000 // between them nothing is assigned
		} else if r == 0xe0200 {
			break
		}
		out, err := toASCII("a" + string(r) + "b")
		fmt.Fprintf(h, "%x %s %t\n", r, out, err == nil)
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("IDNA tables %s: digest %s, want %s. If this change is wanted, raise urlRules: crawls that were begun before cannot be resumed then.", idna.UnicodeVersion, got, want)
	}
}
