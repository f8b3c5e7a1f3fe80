package sitemap

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/test/sitemaptest"
)

func sample() []Entry {
	return []Entry{
		{Loc: "https://x.test/?a=1&b='2'", LastMod: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC), Priority: -1,
			Alternates: []Alternate{{"de", "https://x.test/de?a&b"}, {"x-default", "https://x.test/"}},
			Images:     []string{"https://x.test/i.png?a&b"}},
		{Loc: "https://x.test/%E2%82%AC", Priority: -1},
	}
}

func write(t *testing.T, o Options, entries []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	s := NewURLSet(&b, o)
	for i := range entries {
		if err := s.Add(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteIsValidAndReadsBack(t *testing.T) {
	doc := write(t, Options{Alternates: true, Images: true}, sample())
	_, got, err := readAll(bytes.NewReader(doc))
	want := sample()
	want[0].Alternates, want[0].Images = nil, nil
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v", got, err)
	}
	for _, text := range []string{
		`<xhtml:link rel="alternate" hreflang="de" href="https://x.test/de?a&amp;b"/>`,
		`<xhtml:link rel="alternate" hreflang="x-default" href="https://x.test/"/>`,
		`<image:image><image:loc>https://x.test/i.png?a&amp;b</image:loc></image:image>`,
	} {
		if bytes.Count(doc, []byte(text)) != 1 {
			t.Errorf("%s is not there once:\n%s", text, doc)
		}
	}
	sitemaptest.Document(t, "a urlset", doc)
	sitemaptest.Document(t, "a plain urlset", write(t, Options{}, sample()))
}

// changefreq and priority have their places in the schema.
func TestRules(t *testing.T) {
	frequencies, err := ParseRules([]string{`/news/=hourly`, `\?a=1$=never`, `weekly=daily`}, CheckFrequency)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"http://x.test/news/?a=1": "hourly", "http://x.test/?a=1": "never",
		"http://x.test/weekly": "daily", "http://x.test/": ""} {
		if got := FirstMatch(frequencies, url); got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
	for _, bad := range []string{"news", "=daily", "news=often", "news=", "(=daily"} {
		if _, err := ParseRules([]string{bad}, CheckFrequency); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for text, want := range map[string]bool{"0": true, "1.0": true, "0.85": true, "1.1": false, "-0.1": false, "NaN": false,
		"x": false, "": false} {
		if err := CheckPriority(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	entries := sample()
	entries[0].Frequency, entries[0].Priority = "hourly", 0.85
	doc := write(t, Options{Priorities: true, Alternates: true, Images: true}, entries)
	sitemaptest.Document(t, "a urlset with rules", doc)
	text := string(doc)
	if strings.Count(text, "<changefreq>hourly</changefreq>\n    <priority>0.85</priority>") != 1 ||
		strings.Count(text, "<priority>") != 1 {
		t.Error(text)
	}
}

func TestWriteLeavesOutWhatWasNotAskedFor(t *testing.T) {
	doc := string(write(t, Options{}, sample()))
	if strings.Contains(doc, "xhtml") || strings.Contains(doc, "image") {
		t.Error(doc)
	}
}

func TestIndexIsValidAndReadsBack(t *testing.T) {
	var b bytes.Buffer
	parts := []Entry{{Kind: Child, Loc: "https://x.test/sitemap-1.xml",
		LastMod: time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC), Priority: -1},
		{Kind: Child, Loc: "https://x.test/a&b", Priority: -1}}
	index := NewIndex(&b, Options{})
	for i := range parts {
		if err := index.Add(&parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
	_, got, err := readAll(bytes.NewReader(b.Bytes()))
	if err != nil || !reflect.DeepEqual(got, parts) {
		t.Errorf("read back %+v, %v", got, err)
	}
	sitemaptest.Document(t, "an index", b.Bytes())
}

func TestLimits(t *testing.T) {
	var b bytes.Buffer
	s := NewURLSet(&b, Options{MaxURLs: 2})
	for i := range 3 {
		err := s.Add(&Entry{Loc: "https://x.test/"})
		if (i == 2) != errors.Is(err, ErrFull) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	for _, max := range []int{300, 301, 350, 400} {
		b.Reset()
		s = NewURLSet(&b, Options{MaxBytes: max})
		for s.Add(&Entry{Loc: "https://x.test/"}) == nil {
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if b.Len() > max || s.urls == 0 {
			t.Errorf("limit %d: %d bytes, %d entries", max, b.Len(), s.urls)
		}
	}
	b.Reset()
	if err := NewURLSet(&b, Options{}).Close(); err != nil || b.Len() != 0 {
		t.Errorf("an empty set wrote %q, %v", b.String(), err)
	}
}

// Whatever a canonical URL holds, what is written of it is valid, and a URL of RFC 3986 is written as it is.
func TestAnyURLIsValid(t *testing.T) {
	var entries []Entry
	for _, ref := range []string{
		"a[b]?c[d]=e", "100%", "%zz%4", "?q=%u1234", "a|b", `a"b`, "{a}", "a^b`c", "it's", "a;b=1,c@d:e!$*()", "//a//b?c?d/e", "\u00e4?\u00f6", "a b", "<&>", `a\b?c\d`, "?a=b&c=d",
	} {
		base, err := weburl.Parse("http://x.test/")
		if err != nil {
			t.Fatal(err)
		}
		u, err := base.Resolve(ref)
		if err != nil {
			t.Fatal(err)
		}
		again, err := weburl.Parse(string(appendURL(nil, strings.ReplaceAll(u.String(), "&", "+"))))
		if err != nil || again.Host() != u.Host() {
			t.Errorf("%s is written as %s, %v", u, again, err)
		}
		entries = append(entries, Entry{Loc: u.String(), Alternates: []Alternate{{"en", u.String()}}, Images: []string{u.String(), ""}})
	}
	entries = append(entries, Entry{Loc: "http://[::1]:8080/[x]"})
	doc := write(t, Options{Alternates: true, Images: true}, entries)
	sitemaptest.Document(t, "odd URLs", doc)
	if !bytes.Contains(doc, []byte("<loc>http://[::1]:8080/%5Bx%5D</loc>")) || !bytes.Contains(doc, []byte("<loc>http://x.test/a;b=1,c@d:e!$*()</loc>")) {
		t.Errorf("%s", doc)
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		url  string
		want bool
	}{
		{"http://a.b/", false}, {"http://a.b/c", true},
		{"http://x.test/" + strings.Repeat("a", maxLoc-14), true}, {"http://x.test/" + strings.Repeat("a", maxLoc-13), false},
		{"http://x.test/" + strings.Repeat("a", maxLoc-15) + "|", false}, {"http://x.test/" + strings.Repeat("a", maxLoc-17) + "|", true},
	} {
		if got := Fits(c.url); got != c.want {
			t.Errorf("%d characters fit: %v", len(c.url), got)
		}
		if c.want {
			sitemaptest.Document(t, "a URL that fits", write(t, Options{}, []Entry{{Loc: c.url}}))
		}
	}
}

// What the schemas have no form for is left out, and nothing is made up in its place.
func TestWhatCannotBeSaidIsLeftOut(t *testing.T) {
	entry := Entry{Loc: "http://x.test/"}
	for _, lang := range []string{"en", "zh-Hant-TW", "x-default", "es-419", "en_US", "", "de-", "-de", "\"", "englishlanguage", "4-de"} {
		entry.Alternates = append(entry.Alternates, Alternate{lang, "http://x.test/" + lang})
	}
	for _, at := range []time.Time{{}, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(12024, 1, 1, 0, 0, 0, 0, time.UTC)} {
		entry.LastMod = at
		doc := write(t, Options{Alternates: true}, []Entry{entry})
		sitemaptest.Document(t, "odd languages and times", doc)
		if n := bytes.Count(doc, []byte("<xhtml:link")); n != 4 {
			t.Errorf("%d languages in %s", n, doc)
		}
		if bytes.Contains(doc, []byte("lastmod")) {
			t.Errorf("%v is written in %s", at, doc)
		}
	}
}

func TestIndexIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		o    Options
		loc  string
		full func(entries, bytes int) bool
	}{
		"protocol's entries": {Options{}, "https://x.test/", func(n, _ int) bool { return n == MaxURLs }},
		"own entries":        {Options{MaxURLs: 3}, "https://x.test/", func(n, _ int) bool { return n == 3 }},
		"protocol's bytes":   {Options{}, "https://x.test/" + strings.Repeat("x", 2000), func(_, bytes int) bool { return bytes > MaxBytes-2100 }},
	} {
		var b bytes.Buffer
		index, n := NewIndex(&b, tt.o), 0
		err := index.Add(&Entry{Loc: tt.loc})
		for ; err == nil; n++ {
			err = index.Add(&Entry{Loc: tt.loc})
		}
		if !errors.Is(err, ErrFull) || !tt.full(n, b.Len()) {
			t.Errorf("%s: %v after %d entries and %d bytes", name, err, n, b.Len())
		}
		if err := index.Close(); err != nil || b.Len() > MaxBytes {
			t.Errorf("%s: %v, %d bytes", name, err, b.Len())
		}
	}
	var b bytes.Buffer
	if err := NewIndex(&b, Options{}).Close(); err != nil || b.Len() > 0 {
		t.Errorf("%v, an empty index has %d bytes", err, b.Len())
	}
}

// News and films have the elements of their extensions in order, texts that XML can express, and bounded lengths. They
// are not written unless they are asked for.
func TestExtensions(t *testing.T) {
	long := strings.Repeat("é", 3000)
	list := []Entry{
		{Loc: "https://a.test/1", Priority: -1, Images: []string{"https://a.test/i.png"},
			News: &News{Publication: "The <Times> & \x01", Language: "en", Title: "A\tB]]>",
				At: time.Date(2026, 5, 6, 7, 8, 9, 5e8, time.FixedZone("", 3600))},
			Video: &Video{Thumbnail: "https://a.test/t.png?a=1&b=2", Title: long, Description: long,
				Content: "https://a.test/f.mp4"}},
		{Loc: "https://a.test/2", Priority: -1, Video: &Video{Thumbnail: "https://a.test/t.png", Title: "T <b>",
			Description: "D", Player: "https://p.test/?v=\"1\""}},
		{Loc: "https://a.test/3", Priority: -1},
	}
	text := string(write(t, Options{Images: true, News: true, Videos: true}, list))
	sitemaptest.Document(t, "extensions", []byte(text))
	for part, want := range map[string]int{"<news:news>": 1, "<video:video>": 2, "2026-05-06T06:08:09Z": 1,
		"<news:name>The &lt;Times&gt; &amp; \uFFFD</news:name>": 1, "A&#x9;B]]&gt;": 1,
		"<video:title>" + strings.Repeat("é", 100) + "</video:title>":              1,
		"<video:description>" + strings.Repeat("é", 2048) + "</video:description>": 1,
		"<video:content_loc>https://a.test/f.mp4<":                                 1, "<video:player_loc>": 1} {
		if n := strings.Count(text, part); n != want {
			t.Errorf("%d times %s, want %d:\n%s", n, part, want, text)
		}
	}
	if text := string(write(t, Options{}, list)); strings.Contains(text, "news") || strings.Contains(text, "video") {
		t.Errorf("extensions that nobody asked for:\n%s", text)
	}
	set := NewURLSet(io.Discard, Options{News: true})
	for range maxNews {
		if err := errors.Join(set.Add(&list[0]), set.Add(&list[2])); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Add(&list[0]); !errors.Is(err, ErrFull) {
		t.Errorf("%v with the 1,001st article of a file", err)
	}
	if err := set.Add(&list[2]); err != nil {
		t.Errorf("%v with a page that is no article", err)
	}
}

// A label comes back as it was, also one that a comment cannot have, and other files have none.
func TestLabel(t *testing.T) {
	for _, label := range []string{"", "shop", "shop shop-xn--a---b----c.test shop-~~2001-db8--1", "a- a--"} {
		var b bytes.Buffer
		if err := NewIndex(&b, Options{Label: label}).Add(&Entry{Loc: "https://a.test/shop.xml"}); err != nil {
			t.Fatal(err)
		}
		index := b.Bytes()
		for _, doc := range [][]byte{write(t, Options{Label: label}, sample()), index} {
			if got, ours := Label(doc); !ours || got != label {
				t.Errorf("the label is %q, want %q", got, label)
			}
			head := bytes.Index(doc, []byte(headEnd)) + len(headEnd)
			comment := bytes.TrimPrefix(doc[:head-len("-->\n")], []byte(xmlHead[:len(xmlHead)-len(" Mapwright")]))
			if got, ours := Label(doc[:head-1]); ours || bytes.Contains(comment, []byte("--")) {
				t.Errorf("%q: a part of a head has the label %q", doc[:head], got)
			}
		}
	}
	for _, text := range []string{"", `<?xml version="1.0" encoding="UTF-8"?>` + "\n<urlset>", xmlHead, xmlHead + "s" +
		headEnd, xmlHead + "\n" + headEnd} {
		if got, ours := Label([]byte(text)); ours {
			t.Errorf("%q has the label %q", text, got)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	entry := Entry{Loc: "https://www.example.com/section/17/page-123456.html?a=1&b=2", LastMod: time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.ReportAllocs()
	s := NewURLSet(io.Discard, Options{MaxURLs: math.MaxInt, MaxBytes: math.MaxInt})
	for b.Loop() {
		if err := s.Add(&entry); err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever an entry holds, the file is well-formed, and reads back as one entry.
func FuzzWrite(f *testing.F) {
	f.Add("http://x.test/?a=1&b='2'", "en", "http://x.test/i.png")
	f.Add("http://[::1]/[%zz]<>\"\x00\xff", "en_US", "")
	f.Fuzz(func(t *testing.T, loc, lang, href string) {
		var b bytes.Buffer
		s := NewURLSet(&b, Options{Alternates: true, Images: true})
		if err := errors.Join(s.Add(&Entry{Loc: loc, Alternates: []Alternate{{lang, href}}, Images: []string{href}}), s.Close()); err != nil {
			t.Fatal(err)
		}
		for dec := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %q", err, b.Bytes())
			}
		}
		want := 1
		if loc == "" {
			want = 0
		}
		if _, got, err := readAll(&b); err != nil || len(got) != want {
			t.Fatalf("%d entries, %v", len(got), err)
		}
	})
}
