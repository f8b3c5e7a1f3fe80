package parser

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// FuzzTokens holds the scanner to x/net/html's tokenizer: the same start tags
// with the same attributes in the same order, and the same title.
func FuzzTokens(f *testing.F) {
	for _, s := range tokenSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) { compareTokens(t, src) })
}

func compareTokens(t *testing.T, src []byte) {
	t.Helper()
	for _, d := range deviations() {
		if d.applies(src) {
			return
		}
	}
	got, want := tokens(src), oracle(src)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q\n got %v %s\nwant %v %s", src, got.tags, show(got.title), want.tags, show(want.title))
	}
}

// TestTokensInAnyOrder does the same for tokens thrown together, which random
// bytes seldom make.
func TestTokensInAnyOrder(t *testing.T) {
	pieces := append(tokenSeeds(),
		"<", ">", "/", "=", "'", "\"", "!", "-", "--", "-->", "--!>", "<!--", "]]>", "\x00", "\r\n", " ", "a", "&amp",
		";", "<p", "</", "<a href=",
		"<script", "</script", "</script>", "<title", "</title", "<svg", "</svg>", "<math>", "<noscript>",
		"</noscript>", "<style>", "</style")
	// The oracle has deviations of its own, and not all are known: it is asked the same in every run. FuzzTokens looks
	// for more.
	r := rand.New(rand.NewPCG(1, 0))
	for range 20_000 {
		var src []byte
		for range 1 + r.IntN(10) {
			src = append(src, pieces[r.IntN(len(pieces))]...)
		}
		compareTokens(t, src)
		if t.Failed() {
			return
		}
	}
}

func show(s *string) string {
	if s == nil {
		return "no title"
	}
	return "title " + *s
}

// A deviation is where x/net/html's tokenizer does not do what the standard says.
type deviation struct {
	name    string
	example string
	want    []string // the start tags of the example
	applies func(src []byte) bool
}

func deviations() []deviation {
	return []deviation{
		{
			// In the script data escaped less-than sign state, anything but a letter or
			// '/' goes back to the escaped state. The tokenizer leaves it.
			name:    "script-escaped-less-than",
			example: "<script><!-- < <script> </script> <a> --> </script><b>",
			want:    []string{"script", "b"},
			applies: func(src []byte) bool {
				src = bytes.ToLower(src)
				script := bytes.Index(src, []byte("<script"))
				if script < 0 {
					return false
				}
				src = src[script:]
				comment := bytes.Index(src, []byte("<!--"))
				if comment < 0 {
					return false
				}
				src = src[comment+1:]
				for i, c := range src {
					if c == '<' && i+1 < len(src) && src[i+1] != '/' && !isLetter(src[i+1]) {
						return true
					}
				}
				return false
			},
		},
	}
}

// TestDeviations checks the list of deviations: each exists, and we do what
// the standard says.
func TestDeviations(t *testing.T) {
	for _, d := range deviations() {
		src := []byte(d.example)
		got, theirs := tokens(src), oracle(src)
		if !d.applies(src) {
			t.Errorf("%s does not apply to its example", d.name)
		}
		if reflect.DeepEqual(got, theirs) {
			t.Errorf("%s: x/net/html no longer deviates", d.name)
		}
		var names []string
		for _, tag := range got.tags {
			names = append(names, tag.name)
		}
		if !slices.Equal(names, d.want) {
			t.Errorf("%s: start tags are %q, want %q", d.name, names, d.want)
		}
	}
}

// FuzzParse looks for inputs that break a promise of Parse whatever they are.
func FuzzParse(f *testing.F) {
	for _, s := range tokenSeeds() {
		f.Add([]byte(s), "</next>; rel=next, <c>; rel=canonical", "noindex, bot: nofollow")
	}
	for _, s := range pageSeeds() {
		f.Add([]byte(s), "<a>;rel=\"next prev\";hreflang=\"d\\e\"", "unavailable_after: 1 Jan 2030 00:00:00 GMT, none")
	}
	base, err := ParseURL("https://example.com/a/b?c")
	if err != nil {
		f.Fatal(err)
	}
	o := Options{Images: true, StructuredLinks: true, MaxLinks: 8, MaxLinkBytes: 2000}
	p := newParser(f, o)
	var used Page
	f.Fuzz(func(t *testing.T, body []byte, link, robots string) {
		in := Input{URL: base, Body: body, Header: http.Header{"Link": {link}, "X-Robots-Tag": {robots}}}
		before := bytes.Clone(body)
		var pg Page
		parse(t, p, &pg, in)
		parse(t, p, &used, in)
		if !bytes.Equal(body, before) {
			t.Error("Parse changed the body")
		}
		checkBounds(t, &pg, o)
		if got, want := dump(&used), dump(&pg); got != want {
			t.Errorf("a used page becomes\n%s\na new one\n%s", got, want)
		}
	})
}

// dump writes out all that a Page says.
func dump(pg *Page) string {
	return fmt.Sprintf("%q %q %q %q %q %q %v %v %v %v %v %v %x %x %x %x %x %v %v %v %v %v %v", pg.Title, pg.Description,
		pg.H1, pg.Canonical, pg.Language,
		pg.RobotsMeta, pg.NoIndex, pg.NoFollow, pg.Hreflang, pg.JSONLDTypes, pg.OpenGraph, pg.WordCount, pg.ContentHash,
		pg.TextHash, pg.WordHash, pg.VisibleHash, pg.SimHash, pg.Modified,
		pg.Base, pg.Links, pg.LinkCount, pg.Truncated, pg.Extracted)
}

// checkBounds checks what a Page promises of its size and its parts.
func checkBounds(t *testing.T, pg *Page, o Options) {
	t.Helper()
	for _, s := range []struct {
		name, text string
		max        int
	}{
		{"Title", pg.Title, maxTitle}, {"Description", pg.Description, maxDescription}, {"H1", pg.H1, maxH1},
		{"Language", pg.Language, maxLanguage}, {"RobotsMeta", pg.RobotsMeta, maxRobots},
	} {
		if len(s.text) > s.max || s.text != strings.Trim(s.text, " \t\r\n\f") {
			t.Errorf("%s is %q", s.name, s.text)
		}
	}
	if len(pg.Links) > o.MaxLinks || len(pg.Hreflang) > maxHreflang || len(pg.OpenGraph) > maxProperties ||
		len(pg.JSONLDTypes) > maxTypes {
		t.Errorf("%d links, %d versions, %d properties, %d types", len(pg.Links), len(pg.Hreflang), len(pg.OpenGraph),
			len(pg.JSONLDTypes))
	}
	if pg.WordCount < 0 || pg.LinkCount < 0 {
		t.Errorf("%d words, %d links", pg.WordCount, pg.LinkCount)
	}
	size := 0
	for i, l := range pg.Links {
		size += len(l.Href) + len(l.Rel) + len(l.Text)
		if len(l.Href) > maxHref || len(l.Rel) > maxRel || len(l.Text) > maxText {
			t.Errorf("link %d is too long: %+v", i, l)
		}
		if l.URL.IsZero() == (l.Fault == FaultNone) {
			t.Errorf("link %d has URL %q and fault %q", i, l.URL, l.Fault)
		}
		if string(pg.URLText(i)) != l.URL.String() {
			t.Errorf("link %d has URL %q and text %q", i, l.URL, pg.URLText(i))
		}
		if !l.URL.IsZero() {
			if again, err := ParseURL(l.URL.String()); err != nil || again != l.URL {
				t.Errorf("link %d has URL %q, which parses to %q, %v", i, l.URL, again, err)
			}
		}
	}
	if size > o.MaxLinkBytes {
		t.Errorf("links have %d bytes", size)
	}
	if len(pg.Links) < pg.LinkCount && !pg.Truncated {
		t.Errorf("%d links of %d, not truncated", len(pg.Links), pg.LinkCount)
	}
}

// FuzzReference holds character references to x/net/html's.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"&amp;", "&amp", "&ampx", "&notit;", "&not", "&#38;", "&#x26", "&#xd800;", "&#128;",
		"&#99999999999;",
		"&CounterClockwiseContourIntegral;", "&fjlig;", "&nGt;", "&;", "&#;", "&#x;", "&lt;&gt&quot;", "&semi;",
		"&frac12x", "&AMP;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "\r\x00") {
			return
		}
		var buf []byte
		if got, want := string(unescape(&buf, []byte(s), false)), html.UnescapeString(s); got != want {
			t.Errorf("text %q becomes %q, want %q", s, got, want)
		}
		if strings.ContainsRune(s, '"') {
			return
		}
		z := html.NewTokenizer(strings.NewReader("<a b=\"" + s + "\">"))
		z.Next()
		z.TagName()
		_, want, _ := z.TagAttr()
		buf = nil
		if got := string(unescape(&buf, []byte(s), true)); got != string(want) {
			t.Errorf("attribute %q becomes %q, want %q", s, got, want)
		}
	})
}
