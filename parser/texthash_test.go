package parser

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
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
		{"", " ", "<p></p>", "<script>a()</script>", "<style>b{}</style>", "<template>text</template>", "<!-- text -->",
			"<p>12</p><p>2024 9</p>"},
		{"<p>hello world", "<div>  hello world</div>", "<p id=x class=y><i>hello world</i>",
			"<a href=/other?sid=1>hello world</a>", "<p>hello world</p><script>x</script>"},
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
		{"<p>costs 0 in all", "<p>costs 12 in all"},
		{"<p>costs 10.034 in all"},
		{"<p>costs 10.035 in all"},
		{"<a href=/p?sid=abcdef>/p?sid=abcdef</a> text", "<a href='/p?sid=ghijkl'>\n/p?sid=ghijkl </a>text"},
		{"<a href=a.txt>a.txt</a>"},
		{"<a href=b.txt>b.txt</a>"},
		{"<video src=/v/1.mp4></video>", "<video><source src=/v/1.mp4?t=1 type=video/mp4></video>",
			"<embed src=/v/1.mp4>", "<object data=/v/1.mp4></object>"},
		{"<video src=/v/2.mp4></video>"},
		{"<img src=/blank.gif data-src=/i/1.png>"},
		{"<img src=/blank.gif data-src=/i/2.png>"},
		{"<picture><source srcset='/i/1.webp 1x, /i/1-large.webp 2x'></picture>"},
		{"<picture><source srcset='/i/2.webp 1x, /i/2-large.webp 2x'></picture>"},
		{"<meta name=description content='A shop for hats'>",
			"<meta property=og:description content='A shop for hats'>",
			"<meta property=og:url content=/p/1><meta name=Description content='A shop for hats'>"},
		{"<meta name=description content='A shop for shoes'>"},
		{"<meta property=og:image content=/i/1.png?v=2>", "<meta property=og:image content=/i/1.png>"},
		{"<textarea>hello</textarea>", "hello"},
		// Prices with decimals, in the forms of several countries. Nothing beside a number is looked at.
		{"<p>hat, €19.99", "<p>hat, €19.99 <b>7</b>"},
		{"<p>hat, €19.98"},
		{"<p>hat: <bdi><span>$</span>19.99</bdi>"},
		{"<p>hat: <bdi><span>$</span>20.99</bdi>"},
		{"<p>hat: <bdi>19,99&nbsp;<span>&euro;</span></bdi>"},
		{"<p>hat: <bdi>20,99&nbsp;<span>&euro;</span></bdi>"},
		{"<p>hat: CHF 1'295.50"},
		{"<p>hat: CHF 1'295.60"},
		{"<p>hat: 12,50\u00a0zł"},
		{"<p>hat: 12,60\u00a0zł"},
		{"<p>house, 1.250.000 EUR"}, // no date
		{"<p>house, 1.260.000 EUR"},
		{"<p>hat: 129 EUR"},
		{"<p>hat: 139 EUR"},
		// whole prices of 1, 2 or 4 digits look like days and years
		{"<p>hat, &euro;&nbsp;19", "<p>hat, &euro;&nbsp;20"},
		{"<p>hat: 5 EUR", "<p>hat: 6 EUR", "<p>hat: 1500 EUR"},
		// Products.
		{"<p>screw M4, 1,000 pieces, item 40112"},
		{"<p>screw M4, 1,000 pieces, item 40113"},
		{"<p>screw M4, 2,000 pieces, item 40112"},
		{"<p>version 1.2.3.4"},
		{"<p>version 1.2.3.5"},
		// Paging.
		{"<p>Page 1 of 9", "<p>Page 9 of 12", "<p>Page 10 of 1024"},
		{"<p>Results 1-10 for hats", "<p>Results 11-20 for hats", "<p>Results 91-99 for hats"},
		{"<li>1<li>2<li>3<b>next</b>", "<li>41<li>42<li>43<li>44<b>next</b>", "1 2 3 4 <b>next</b>",
			"<pre>17 18\n</pre><b>next</b>"},
		// Dates and times.
		{"<p>Mo 02.03.2026", "<p>Mo 9.3.26", "<p>Mo 2026.12.31", "<p>Mo 28.12.2037"},
		{"<p>Woche vom 02.03.2026 bis 08.03.2026", "<p>Woche vom 28.12.2026 bis 3.1.2027"},
		{"<p>Le 3 mars 2026 à 9h30", "<p>Le 31 mars 2031 à 14h05"},
		{"<p>2026-03-01T12:00:07", "<p>2031-11-30T09:15:44"},
		{"<p>3/14/2026, 9:30 pm", "<p>12/31/1999, 11:00 pm"},
		{"<p>2026年3月1日", "<p>2031年12月31日"},
		{"<p>العدد 3 مارس 2026", "<p>العدد 14 مارس 2031"},
		{"<p>took 0,07 s", "<p>took 0,1234567 s"},
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

var (
	modelNumber  = regexp.MustCompile(`^[0-9]+([.,'][0-9]+)*`)
	modelIgnored = regexp.MustCompile(`^(\d{1,2}|\d{4}|0[.,].*|(\d{1,2}|\d{4})\.(\d{1,2}|\d{4})\.(\d{1,2}|\d{4}))$`)
)

// modelText reads a text one character after the other, by the rules in words, and returns what its hashes are made of.
func modelText(text string, inURL ...string) (words, counted, all []string) {
	pending := ""
	flush := func() {
		if len(pending)%blockSize == 1 {
			pending = strings.TrimRight(pending, " ")
		}
		if pending != "" {
			words = append(words, pending)
		}
		pending = ""
	}
	for text = strings.Trim(text, " "); text != ""; {
		n := modelNumber.FindString(text)
		if n == "" {
			pending, text = pending+text[:1], text[1:]
			continue
		}
		text = text[len(n):]
		flush()
		all = append(all, n)
		if !modelIgnored.MatchString(n) && !slices.Contains(inURL, n) {
			counted = append(counted, n)
		}
	}
	flush()
	return words, counted, all
}

// Texts have the same hashes exactly if the model finds the same in them, wherever numbers stand in blocks.
func TestTextHashModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "word ", " and ", " ", "x's", ". ", ", ", "'", ".", ",", "7", "12", "345", "6789", "12345",
		"1.5", "0.25", "0,5", "3.12.2026", "1'000", "1,2", "00",
		"long words that go on for more than a block of sixty-four characters, and a little further still ",
		"1234567890123456789", "77777"}
	p := newParser(t, Options{})
	u := canonical(t, "https://x.test/p/77777?n=88888.5&m=12")
	type example struct {
		hash uint64
		text string
	}
	seen := [3]map[string]example{{}, {}, {}}
	known := [3]map[uint64]string{{}, {}, {}}
	for range 10_000 {
		var text string
		for range 1 + r.IntN(12) {
			text += pieces[r.IntN(len(pieces))]
		}
		var pg Page
		parse(t, p, &pg, Input{URL: u, Body: []byte("<p>" + text)})
		words, counted, all := modelText(text, "77777", "88888.5")
		for i, h := range []struct {
			parts [2][]string
			got   uint64
		}{{[2][]string{words, counted}, pg.TextHash}, {[2][]string{words, nil}, pg.WordHash},
			{[2][]string{words, all}, pg.VisibleHash}} {
			model := fmt.Sprintf("%q", h.parts)
			if want, ok := seen[i][model]; ok && want.hash != h.got {
				t.Fatalf("hash %d of %q is not that of %q, both with %s", i, text, want.text, model)
			}
			if other, ok := known[i][h.got]; ok && other != model {
				t.Fatalf("hash %d of %q, %s, is the one of %s", i, text, model, other)
			}
			seen[i][model], known[i][h.got] = example{h.got, text}, model
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
		body := `<title>Shop</title><script id=__NEXT_DATA__ type=application/json>{"buildId":"` + text +
			`","props":{"name":"` + text + `","href":"/p?` + text + `"}}</script>`
		if err := newParser(t, o).Parse(&pg, Input{URL: canonical(t, "https://x.test/"),
			Body: []byte(body)}); err != nil {
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
		if err := newParser(t, Options{}).Parse(&pg, Input{URL: canonical(t, "https://x.test/"),
			Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		return pg.TextHash, pg.WordHash
	}
	text, words := hash("<p>seen 12345 times <b>678</b>")
	for body, same := range map[string]bool{
		"<p>seen 12346 times <b>678</b>": true, "<p>seen 12345 times <b>679</b>": true,
		"<p>seen 678 times <b>12345</b>": true,
		"<p>read 12345 times <b>678</b>": false, "<p>seen 12345 times <b>678</b>more": false,
	} {
		if gotText, gotWords := hash(body); gotText == text || (gotWords == words) != same {
			t.Errorf("%s: the text is the same: %v; the words are the same: %v, want %v", body, gotText == text,
				gotWords == words, same)
		}
	}
}
