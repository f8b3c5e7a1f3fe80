package parser

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomWords is a text of so many words, each drawn from a vocabulary in which some words are more common than others.
func randomWords(r *rand.Rand, words int) []string {
	text := make([]string, words)
	for i := range text {
		n := int(r.ExpFloat64() * 60)
		text[i] = string(rune('a'+n%26)) + strings.Repeat(string(rune('a'+n/26%26)), 1+n%7)
	}
	return text
}

func simHashOf(t *testing.T, body string) uint64 {
	t.Helper()
	var pg Page
	if err := newParser(t, Options{SimHash: true}).Parse(&pg,
		Input{URL: canonical(t, "https://x.test/"), Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	return pg.SimHash
}

// A text that has only another time, counter or token is near; another text is not.
func TestSimHash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[uint64]int{}
	for i := range 200 {
		words := randomWords(r, 100+i)
		text := strings.Join(words, " ")
		is := simHashOf(t, "<p>"+text+"<p>Made 2026-03-01 12:00:07, visit 99, request 8f3a9c1d")
		for _, near := range []string{
			"<p>" + text + "<p>Made 2027-11-30 09:15:44, visit 100, request 77b0e2aa",
			"<div class=x data-at=17>" + text +
				"</div><p>Made <b>2026-03-02</b> 12:00:07, visit 1,234, request 0d0d0d0d<script>f(1)</script>",
		} {
			if d := Distance(is, simHashOf(t, near)); d > 3 {
				t.Errorf("%d words: a text with other numbers has distance %d", len(words), d)
			}
		}
		for other, at := range seen {
			if d := Distance(is, other); d <= 3 {
				t.Errorf("texts %d and %d have distance %d", at, i, d)
			}
		}
		seen[is] = i
	}
	if h := simHashOf(t, ""); h != 0 {
		t.Errorf("no text has the value %x", h)
	}
}

func TestSimHashIsOff(t *testing.T) {
	var pg Page
	pg.SimHash = 7
	if err := newParser(t, Options{}).Parse(&pg, Input{Body: []byte("<p>some text")}); err != nil || pg.SimHash != 0 {
		t.Errorf("the value is %x, %v", pg.SimHash, err)
	}
}

// The visible text is another one exactly if a reader sees another: in each list pages are alike, and those of two
// lists are not.
func TestVisibleHash(t *testing.T) {
	lists := [][]string{
		{"<p>5 in stock", "<p id=7 nonce=abc>5 in stock<script>g(5)</script>",
			"<div><p>5 in stock</div><style>b{}</style>", "<a href=/p?sid=9><p>5 in stock</a>"},
		{"<p>6 in stock"},
		{"<p>Open from 9 to 17"}, {"<p>Open from 10 to 18"},
		{"<p>made in 0.034 s"}, {"<p>made in 0.035 s"},
		{"<p>EUR 5.00"}, {"<p>EUR 5.10"},
		{"<p>item 77777"}, {"<p>item 88888"}, // both are in the URL
		{"<p>a</p><img src=/logo.3f2a.png>", "<p>a</p><img src=/logo.77b0.png>", "<p>a"},
		{"<p>a</p><img src=/logo.png alt=Logo>"},
		{"", "<p> ", "<template>5</template>"},
	}
	p := newParser(t, Options{})
	known := map[uint64]string{}
	for _, list := range lists {
		var want uint64
		for i, body := range list {
			var pg Page
			if err := p.Parse(&pg, Input{URL: canonical(t, "https://x.test/77777/88888"),
				Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = pg.VisibleHash
			}
			if pg.VisibleHash != want {
				t.Errorf("%q differs from %q", body, list[0])
			}
		}
		if other := known[want]; other != "" {
			t.Errorf("%q is like %q", list[0], other)
		}
		known[want] = list[0]
	}
}

func BenchmarkSimHash(b *testing.B) {
	body := []byte("<p>" + strings.Join(randomWords(rand.New(rand.NewPCG(1, 2)), 1000), " "))
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%v", on), func(b *testing.B) {
			p, pg := newParser(b, Options{SimHash: on}), new(Page)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := p.Parse(pg, Input{Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
