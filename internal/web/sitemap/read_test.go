package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"html"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

func readAll(in io.Reader) (Format, []Entry, error) {
	var out []Entry
	f, err := Read(in, nil, func(e *Entry) error { out = append(out, *e); return nil })
	return f, out, err
}

func locs(entries []Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Loc)
	}
	return out
}

func zip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func utf16le(text string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// swapped has the bytes of each pair in the other order.
func swapped(text string) string {
	b := []byte(text)
	for i := 0; i+1 < len(b); i += 2 {
		b[i], b[i+1] = b[i+1], b[i]
	}
	return string(b)
}

const ns = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`

func TestReadForms(t *testing.T) {
	one := []string{"http://a.test/"}
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
	}{
		{"plain", ns + `<url><loc> http://a.test/ </loc></url></urlset>`, FormatURLSet, one},
		{"no namespace", `<urlset><url><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
		{"prefixed", `<sm:urlset xmlns:sm="x"><sm:url><sm:loc>http://a.test/</sm:loc></sm:url></sm:urlset>`,
			FormatURLSet, one},
		{"capitals", `<URLSET><URL><LOC>http://a.test/</LOC></URL></URLSET>`, FormatURLSet, one},
		{"entities and CDATA", ns + `<url><loc>http://a.test/?a=1&amp;b=<![CDATA[2&c=3]]>&#38;d</loc></url></urlset>`,
			FormatURLSet, []string{"http://a.test/?a=1&b=2&c=3&d"}},
		{"bare ampersand", ns + `<url><loc>http://a.test/?a=1&b=2</loc></url></urlset>`, FormatURLSet,
			[]string{"http://a.test/?a=1&b=2"}},
		{"image loc is not the page's", ns +
			`<url><image:image><image:loc>http://a.test/i.png</image:loc></image:image><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
		{"video and news", ns + `<url><loc>http://a.test/</loc><video:video><video:content_loc>http://v</video:content_loc></video:video><news:news><news:title>x</news:title></news:news></url></urlset>`, FormatURLSet, one},
		{"comments and doctype",
			`<?xml version="1.0"?><!DOCTYPE urlset SYSTEM "http://evil.test/x.dtd"><!-- <loc>no</loc> -->` + ns +
				`<url><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
		{"empty loc", ns + `<url><loc></loc></url><url><lastmod>2020-01-01</lastmod></url><url><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
		{"index", `<sitemapindex><sitemap><loc>http://a.test/</loc></sitemap></sitemapindex>`, FormatIndex, one},
		{"rss", `<rss version="2.0"><channel><link>http://no.test/</link><item><link>http://a.test/</link><guid>http://g.test/</guid></item><item><guid>http://b.test/</guid></item></channel></rss>`, FormatRSS, []string{"http://a.test/", "http://b.test/"}},
		{"rss 1.0", `<rdf:RDF><channel><link>x</link></channel><item><link>http://a.test/</link></item></rdf:RDF>`,
			FormatRSS, one},
		{"atom", `<feed><link href="http://no.test/"/><entry><link rel="self" href="http://s.test/"/><link href="http://a.test/"/></entry></feed>`, FormatAtom, one},
		{"text", "\xef\xbb\xbf\r\n  http://a.test/  \r\n# no\r\nftp://x\r\nHTTPS://B.test/x", FormatText,
			[]string{"http://a.test/", "HTTPS://B.test/x"}},
		{"text, an endless line", strings.Repeat("x", 1<<17) + "\nhttp://a.test/\n", FormatText, one},
		{"gzip", zip(t, ns+`<url><loc>http://a.test/</loc></url></urlset>`), FormatURLSet, one},
		{"gzip twice", zip(t, zip(t, "http://a.test/")), FormatText, one},
		{"utf-16", utf16le(`<?xml version="1.0" encoding="UTF-16"?>` + ns +
			`<url><loc>http://a.test/</loc></url></urlset>`), FormatURLSet, one},
		{"latin-1", `<?xml version="1.0" encoding="ISO-8859-1"?>` + ns +
			"<url><loc>http://a.test/\xe9</loc></url></urlset>", FormatURLSet, []string{"http://a.test/é"}},
		{"utf-16 without a mark", utf16le(`<?xml version="1.0" encoding="UTF-16"?>` + ns +
			`<url><loc>http://a.test/</loc></url></urlset>`)[2:], FormatURLSet, one},
		{"utf-16 big endian", swapped(utf16le(ns + `<url><loc>http://a.test/</loc></url></urlset>`)), FormatURLSet,
			one},
		{"utf-16 big endian without a mark", swapped(utf16le(ns + `<url><loc>http://a.test/</loc></url></urlset>`))[2:],
			FormatURLSet, one},
		{"utf-16 as it says, but it is not", `<?xml version="1.0" encoding="UTF-16"?>` + ns +
			`<url><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
		{"text in utf-16", utf16le("http://a.test/\r\n"), FormatText, one},
		{"windows-1251", `<?xml version='1.0' encoding='Windows-1251' ?>` + ns +
			"<url><loc>http://a.test/\xe6</loc></url></urlset>", FormatURLSet, []string{"http://a.test/ж"}},
		{"an unknown encoding", `<?xml version="1.0" encoding="klingon"?>` + ns +
			"<url><loc>http://a.test/é</loc></url></urlset>", FormatURLSet, []string{"http://a.test/é"}},
		{"a broken byte", ns + "<url><loc>http://a.test/\xe9</loc></url><url><loc>http://a.test/2</loc></url></urlset>",
			FormatURLSet, []string{"http://a.test/\uFFFD", "http://a.test/2"}},
		{"control characters", ns +
			"<url><loc>http://a.test/</loc>\x00\x0b</url>\x00<url><loc>http://a.test/2</loc></url></urlset>\x00",
			FormatURLSet, []string{"http://a.test/", "http://a.test/2"}},
		{"two byte order marks", "\xef\xbb\xbf\n\xef\xbb\xbf" + ns + `<url><loc>http://a.test/</loc></url></urlset>`,
			FormatURLSet, one},
		{"prefixes", `<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><s:url><s:loc>http://a.test/</s:loc></s:url></s:urlset>`, FormatURLSet, one},
		{"cdata and comments in a loc", ns + `<url><loc> <![CDATA[http://a.]]><!-- x -->test/ </loc></url></urlset>`,
			FormatURLSet, one},
		{"comments with hyphens and markup", ns + `<!-- a -- <b "> <![CDATA[ --><!----><url><!--><--><loc>http://a.test/` +
			`<!-- </loc> --></loc></url></urlset><!-- -`, FormatURLSet, one},
		{"a comment in CDATA", ns + `<url><loc><![CDATA[http://a.test/<!--]]></loc></url></urlset>`, FormatURLSet,
			[]string{"http://a.test/<!--"}},
		{"white space before the declaration", " \n\t<?xml version=\"1.0\"?>" + ns +
			`<url><loc>http://a.test/</loc></url></urlset>`, FormatURLSet, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, got, err := readAll(strings.NewReader(c.text))
			if err != nil || f != c.format || !reflect.DeepEqual(locs(got), c.want) {
				t.Errorf("got %s %q %v, want %s %q", f, locs(got), err, c.format, c.want)
			}
		})
	}
}

func TestReadFacts(t *testing.T) {
	_, got, err := readAll(strings.NewReader(ns + `<url><loc>http://a.test/</loc><lastmod>2024-05-06T07:08:09+02:00</lastmod><priority>0.7</priority>
		<xhtml:link rel="alternate" hreflang="de" href="http://a.test/de"/><image:image><image:loc>http://a.test/i.png</image:loc></image:image></url>
		<url><loc>http://b.test/</loc><priority>11</priority><lastmod>yesterday</lastmod></url>
		<url><loc>http://c.test/</loc><lastmod>9999-12-31T23:59:59-12:00</lastmod></url></urlset>`))
	want := []Entry{
		{Loc: "http://a.test/", LastMod: time.Date(2024, 5, 6, 5, 8, 9, 0, time.UTC), Priority: 0.7},
		{Loc: "http://b.test/", Priority: -1},
		{Loc: "http://c.test/", Priority: -1}, // no year of UTC
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// What comes before the break is delivered, and the break is an error.
func TestReadBroken(t *testing.T) {
	whole := ns + `<url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2</loc></url></urlset>`
	for cut := len(ns); cut < len(whole); cut++ {
		_, got, err := readAll(strings.NewReader(whole[:cut]))
		if err == nil {
			t.Errorf("cut at %d: no error", cut)
		}
		if want := strings.Count(whole[:cut], "</url>"); len(got) != want {
			t.Errorf("cut at %d: %d entries, want %d", cut, len(got), want)
		}
	}
	_, got, err := readAll(strings.NewReader(ns +
		`<url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2</url><url><loc>http://a.test/3</loc></url></urlset>`))
	if err != nil || len(got) < 2 {
		t.Errorf("an unclosed loc: %q, %v", locs(got), err)
	}
}

func TestReadHostile(t *testing.T) {
	laughs := `<!DOCTYPE u [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>` + ns +
		`<url><loc>http://a.test/&b;</loc></url></urlset>`
	if _, got, err := readAll(strings.NewReader(laughs)); err == nil && len(got) == 1 && len(got[0].Loc) > 40 {
		t.Errorf("entities were expanded: %q", got[0].Loc)
	}
	external := `<!DOCTYPE u [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + ns +
		`<url><loc>http://a.test/&x;</loc></url></urlset>`
	if _, got, _ := readAll(strings.NewReader(external)); len(got) == 1 && strings.Contains(got[0].Loc, "root:") {
		t.Error("an external entity was loaded")
	}
	for name, in := range map[string]io.Reader{
		"html":        strings.NewReader("<!doctype html><html><body>404</body></html>"),
		"empty":       strings.NewReader(" \n"),
		"plain text":  strings.NewReader("Notice: undefined index\n\nnothing here\n"),
		"json":        strings.NewReader(`{"error":"http://a.test/"}`),
		"nesting":     strings.NewReader(ns + strings.Repeat("<a>", 1000)),
		"huge text":   io.MultiReader(strings.NewReader(ns+"<url><loc>"), endless("x")),
		"huge cdata":  io.MultiReader(strings.NewReader(ns+"<url><loc><![CDATA["), endless("<")),
		"brackets":    io.MultiReader(strings.NewReader(ns+"<url><loc><![CDATA["), endless("]")),
		"comment":     io.MultiReader(strings.NewReader(ns+"<!--"), endless("-")),
		"value":       io.MultiReader(strings.NewReader(`<urlset xmlns="`), endless("é")),
		"instruction": io.MultiReader(strings.NewReader("<?xml "), endless("x?")),
		"doctype":     io.MultiReader(strings.NewReader("<!DOCTYPE "), endless("'x' <")),
		"gzip layers": strings.NewReader(zip(t, zip(t, zip(t, zip(t, "http://a.test/"))))),
	} {
		if _, _, err := readAll(in); !errors.Is(err, ErrNotSitemap) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The number of attributes of a tag and the length of their names are bounded.
func TestReadLongTags(t *testing.T) {
	for _, begin := range []string{"<urlset", "<!-- > <x \" --><urlset", "<urlset><url>text<loc",
		"<urlset><![CDATA[<a \"]]><url", "<urlset><url></url"} {
		for _, attribute := range []string{" x", ` x=""`, ` x=">"`, " x='\">'", "\ny=z", "x", " "} {
			in := &countedReader{r: io.MultiReader(strings.NewReader(begin), endless(attribute))}
			_, _, err := readAll(in)
			closed := strings.Contains(begin, "/") // it has no attributes, which is an error of another kind
			if err == nil || !closed && !errors.Is(err, ErrNotSitemap) || in.n > 128<<10 {
				t.Errorf("%s with %q: %v after %d bytes", begin, attribute, err, in.n)
			}
		}
	}
}

// What is long is passed over wherever nothing of it matters. Of an address that is longer than any may be, the
// beginning is given.
func TestReadLongTokens(t *testing.T) {
	const page = "http://a.test/"
	for _, unit := range []string{"x", "é", "]", "&", "&amp;", "&#38;", " ", "-", `<a x="`, "]]<", "'", "\r\n"} {
		for _, n := range []int{maxHeld - 30, maxHeld - 1, maxHeld, maxHeld + 1, 2 * maxHeld, 20 * maxHeld} {
			long := strings.Repeat(unit, n/len(unit))
			if unit == "]" && n >= 2*maxHeld {
				continue // an error, see TestReadHostile
			}
			plain := strings.NewReplacer("<", "+", `"`, "+", "]", "+").Replace(long)
			text := "<urlset xmlns:a=\"" + plain + "\" xmlns:b=\"" + plain + "\"><!--" + long + "-->" + plain +
				"<url><title><![CDATA[" + long + "]]>" + plain + "</title><loc>" + page + "</loc></url>" +
				"<url><loc>" + page + "<![CDATA[" + long + "]]></loc></url>" +
				"<url><loc>" + page + plain + "</loc></url><url><loc>" + page + "2</loc></url></urlset>"
			_, got, err := readAll(strings.NewReader(text))
			if err != nil || len(got) != 4 || got[0].Loc != page || got[3].Loc != page+"2" {
				t.Errorf("%d of %q: %d entries, %v", n, unit, len(got), err)
				continue
			}
			for i, raw := range []string{long, html.UnescapeString(plain)} {
				whole := strings.TrimSpace(page + strings.ReplaceAll(raw, "\r\n", "\n"))
				switch loc := got[1+i].Loc; {
				case got[1+i].Cut && n < maxHeld-1 || !got[1+i].Cut && loc != whole:
					t.Errorf("%d of %q: %d bytes, Cut is %v", n, unit, len(loc), got[1+i].Cut)
				case !strings.HasPrefix(whole, strings.TrimSuffix(strings.TrimRight(loc, "#38am"), "&")):
					t.Errorf("%d of %q: %.100s is not the beginning of %.100s", n, unit, loc, whole)
				case len(loc) < min(len(whole), maxHeld/6) || len(loc) > maxHeld:
					t.Errorf("%d of %q: %d bytes of %d", n, unit, len(loc), len(whole))
				}
			}
		}
	}
	_, got, err := readAll(strings.NewReader(page + strings.Repeat("x", 2*maxHeld) + "\n" + page))
	if err != nil || len(got) != 2 || len(got[0].Loc) != maxHeld || !got[0].Cut || got[1].Cut {
		t.Errorf("a long line: %d entries, %v", len(got), err)
	}
}

// Little that unzips to much is found out early.
func TestReadBomb(t *testing.T) {
	once := zip(t, strings.Repeat(" ", maxUnzipped))
	twice := zip(t, strings.Repeat(once, 100)) // members of one file
	if _, _, err := readAll(strings.NewReader(twice)); !errors.Is(err, ErrNotSitemap) ||
		!strings.Contains(err.Error(), "times its size") {
		t.Errorf("got %v", err)
	}
}

// wire is a file of which the transfer was compressed: few bytes came for it.
type wire struct {
	io.Reader
	came int64
	err  error
}

func (w *wire) WireBytes() int64 { return w.came }
func (w *wire) Ended() error     { return w.err }

// What a file unzips to is measured by the bytes that came for it, and unzipping stops when the transfer has ended.
func TestReadBombInATransfer(t *testing.T) {
	text := strings.Repeat("http://a.test/"+strings.Repeat("x", 1000)+"\n", 2*maxUnzipped/1000)
	packed := zip(t, text)
	for _, tt := range []struct {
		came int64
		err  error
		want error
	}{
		{1000, nil, ErrNotSitemap},
		{int64(len(text)) / maxRatio, nil, nil},
		{int64(len(text)), io.ErrClosedPipe, io.ErrClosedPipe},
	} {
		if _, _, err := readAll(&wire{strings.NewReader(packed), tt.came, tt.err}); !errors.Is(err, tt.want) {
			t.Errorf("%d bytes came, %v: got %v, want %v", tt.came, tt.err, err, tt.want)
		}
	}
}

// endless repeats a text. A reader that does not bound its tokens would never return.
func endless(text string) io.Reader { return &endlessReader{text: text} }

type endlessReader struct {
	text string
	at   int
}

func (e *endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

func TestReadStopsWhenToldTo(t *testing.T) {
	stop := errors.New("stop")
	if _, err := Read(strings.NewReader("http://a.test/\nhttp://b.test/"), nil,
		func(*Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		ns + `<url><loc>http://a.test/</loc><lastmod>2020-01-01</lastmod></url></urlset>`,
		`<rss><channel><item><link>http://a/</link></item></channel></rss>`,
		`<feed><entry><link href="http://a/"/></entry></feed>`, "http://a.test/\n",
		`<sitemapindex><sitemap><loc>x</loc></sitemap>`,
	} {
		f.Add([]byte(seed))
		f.Add([]byte(zip(f, seed)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		format, err := Read(bytes.NewReader(b), nil, func(e *Entry) error {
			if n++; e.Loc == "" || e.Priority > 1 {
				return fmt.Errorf("a bad entry: %+v", e)
			}
			return nil
		})
		if err != nil && strings.HasPrefix(err.Error(), "a bad entry") {
			t.Fatal(err)
		}
		if n > 0 && format == "" {
			t.Fatal("entries of no format")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var text strings.Builder
	text.WriteString(ns)
	for i := range 50_000 {
		fmt.Fprintf(&text, "<url><loc>https://www.example.com/section/%d/page-%d.html</loc><lastmod>2024-01-02</lastmod></url>\n", i%100, i)
	}
	text.WriteString("</urlset>")
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(strings.NewReader(text.String()), nil, func(*Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
