package parser

import (
	"strings"
	"testing"
)

func textHashOf(t *testing.T, url, body string) uint64 {
	t.Helper()
	var pg Page
	if err := newParser(t, Options{}).Parse(&pg, Input{URL: canonical(t, url), Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	return pg.TextHash
}

// Each list holds pages that show the same to a reader; pages of different lists do not.
func TestTextHash(t *testing.T) {
	prose := strings.Repeat("It was a bright cold day in April, and the clocks were striking. ", 4)
	lists := [][]string{
		{"", " ", "<p></p>", "<script>a()</script>", "<style>b{}</style>", "<template>text</template>", "<!-- text -->", "<p>12</p><p>2024 9</p>"},
		{"<p>hello world", "<div>  hello world</div>", "<p id=x class=y><i>hello world</i>", "<a href=/other?sid=1>hello world</a>", "<p>hello world</p><script>x</script>"},
		{"<p>March 2031 <td>1<td>2<td>31", "<p>March 2032 <td>1<td>2<td>30", "<p>March 1999 <td>", "<p>March 12 "},
		{"<p>April 2031 <td>1<td>2<td>31"},
		{"<p>300 items", "<p>300 items <b>7</b>"},
		{"<p>301 items"},
		{"<p>item 77777 of page", "<p>item 88888 of page"}, // both are in the URL
		{"<p>item 99999 of page"},
		{"<img src=/a.png>", "<img src=/a.png?v=1>", "<img src='/a.png#top' id=7>"},
		{"<img src=/b.png>"},
		{"<img src=/a.png alt=A>"},
		{"<img src=/2026/11/16.png>"},
		{"<img src=/2026/11/17.png>"},
		{"<iframe src=https://video.example/1></iframe>"},
		{"<iframe src=https://video.example/2></iframe>"},
		{prose, "<p>" + prose, prose + "<p>2"},
		{prose + "And so on."},
		{"Then: " + prose},
		{"Monday, 2 March 2026: " + prose, "Monday, 30 March 2037: " + prose},
		{prose + "Next: 2 March, 9:30. " + prose, prose + "Next: 30 March, 11:30. " + prose},
		{"<p>Mittwoch, 3. März", "<p>Mittwoch, 12. März"},
		{"<p>Среда, 3 марта", "<p>Среда, 14 марта"},
		{"<p>made in 0.034 s", "<p>made in 0.1234567 s"},
		{"<p>costs 10.034 in all"},
		{"<p>costs 10.035 in all"},
		{"<a href=/p?sid=abcdef>/p?sid=abcdef</a> text", "<a href='/p?sid=ghijkl'>\n/p?sid=ghijkl </a>text"},
		{"<a href=a.txt>a.txt</a>"},
		{"<a href=b.txt>b.txt</a>"},
		{"<video src=/v/1.mp4></video>", "<video><source src=/v/1.mp4?t=1 type=video/mp4></video>", "<embed src=/v/1.mp4>", "<object data=/v/1.mp4></object>"},
		{"<video src=/v/2.mp4></video>"},
		{"<img src=/blank.gif data-src=/i/1.png>"},
		{"<img src=/blank.gif data-src=/i/2.png>"},
		{"<picture><source srcset='/i/1.webp 1x, /i/1-large.webp 2x'></picture>"},
		{"<picture><source srcset='/i/2.webp 1x, /i/2-large.webp 2x'></picture>"},
		{"<meta name=description content='A shop for hats'>", "<meta property=og:description content='A shop for hats'>", "<meta property=og:url content=/p/1><meta name=Description content='A shop for hats'>"},
		{"<meta name=description content='A shop for shoes'>"},
		{"<meta property=og:image content=/i/1.png?v=2>", "<meta property=og:image content=/i/1.png>"},
		{"<textarea>hello</textarea>", "hello"},
		{"<p>hat, €19.99", "<p>hat, €19.99 <b>7</b>"},
		{"<p>hat, €19.98"},
		{"<p>hat, &euro;&nbsp;19"},
		{"<p>hat, &euro;&nbsp;20"},
		{"<p>hat: <bdi><span>$</span>19.99</bdi>"},
		{"<p>hat: <bdi><span>$</span>20.99</bdi>"},
		{"<p>hat: <bdi>19,99&nbsp;<span>&euro;</span></bdi>"},
		{"<p>hat: <bdi>20,99&nbsp;<span>&euro;</span></bdi>"},
		{"<p>hat: 5 EUR"},
		{"<p>hat: 6 EUR"},
		{"<p>hat: CHF 1'295.50"},
		{"<p>hat: CHF 1'295.60"},
		{"<p>hat: 12,50\u00a0zł"},
		{"<p>hat: 12,60\u00a0zł"},
		{"<p>hat: 5 EUROPEAN", "<p>hat: 6 EUROPEAN"}, // no currency
	}
	seen := map[uint64]string{}
	for _, list := range lists {
		want := textHashOf(t, "https://x.test/p/77777?n=88888&m=12", list[0])
		if other, ok := seen[want]; ok {
			t.Errorf("%q and %q have the same hash", list[0], other)
		}
		seen[want] = list[0]
		for _, body := range list[1:] {
			if got := textHashOf(t, "https://x.test/p/77777?n=88888&m=12", body); got != want {
				t.Errorf("%q and %q have different hashes", body, list[0])
			}
		}
	}
}

// Pages that differ in one word have different hashes, wherever it stands in a piece of text of whatever length.
func TestTextHashOfWords(t *testing.T) {
	seen := map[uint64]string{}
	for n := 1; n <= 200; n++ {
		for _, word := range []string{"aaa", "bbb", "789", "790"} {
			body := "<p>" + strings.Repeat("x", n) + word + strings.Repeat("y", 200-n)
			h := textHashOf(t, "https://x.test/", body)
			if other, ok := seen[h]; ok {
				t.Errorf("%q and %q have the same hash", body, other)
			}
			seen[h] = body
		}
	}
}

// The hash depends on what is in the page, not on what lies behind it in memory.
func TestTextHashReadsNoFurther(t *testing.T) {
	whole := []byte("<p>hello<p>worldXXXXXXXXXXXXXXXXXXXXXX99999")
	p := newParser(t, Options{})
	var a, b Page
	body := whole[:len("<p>hello<p>world")]
	if err := p.Parse(&a, Input{URL: canonical(t, "https://x.test/"), Body: body}); err != nil {
		t.Fatal(err)
	}
	if err := p.Parse(&b, Input{URL: canonical(t, "https://x.test/"), Body: []byte(string(body))}); err != nil {
		t.Fatal(err)
	}
	if a.TextHash != b.TextHash {
		t.Error("bytes behind the body count")
	}
}

// A page that is rendered from data shows the data.
func TestTextHashOfData(t *testing.T) {
	hash := func(o Options, text string) uint64 {
		var pg Page
		body := `<title>Shop</title><script id=__NEXT_DATA__ type=application/json>{"buildId":"` + text + `","props":{"name":"` + text + `","href":"/p?` + text + `"}}</script>`
		if err := newParser(t, o).Parse(&pg, Input{URL: canonical(t, "https://x.test/"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		return pg.TextHash
	}
	if hash(Options{StructuredLinks: true}, "chair") == hash(Options{StructuredLinks: true}, "table") {
		t.Error("pages with different data have the same hash, though links are taken from it")
	}
	if hash(Options{}, "chair") != hash(Options{}, "table") {
		t.Error("data that is not looked at counts")
	}
}

// Pages that differ in numbers have the same words.
func TestWordHash(t *testing.T) {
	hash := func(body string) (text, words uint64) {
		var pg Page
		if err := newParser(t, Options{}).Parse(&pg, Input{URL: canonical(t, "https://x.test/"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		return pg.TextHash, pg.WordHash
	}
	text, words := hash("<p>seen 12345 times <b>678</b>")
	for body, same := range map[string]bool{
		"<p>seen 12346 times <b>678</b>": true, "<p>seen 12345 times <b>679</b>": true, "<p>seen 678 times <b>12345</b>": true,
		"<p>read 12345 times <b>678</b>": false, "<p>seen 12345 times <b>678</b>more": false,
	} {
		if gotText, gotWords := hash(body); gotText == text || (gotWords == words) != same {
			t.Errorf("%s: the text is the same: %v; the words are the same: %v, want %v", body, gotText == text, gotWords == words, same)
		}
	}
}
