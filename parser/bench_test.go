package parser

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// readers are what the comparison runs: ours, the tokenizer loop, the tree with
// selectors. TestPeersAgree holds them to the same facts.
func readers(tb testing.TB, base URL, body []byte) (names []string, fns []func()) {
	p, tree := newParser(tb, Options{}), newTreeReader()
	pg := new(Page)
	return []string{"mapwright", "tokenizer", "tree"}, []func(){
		func() { p.Parse(pg, Input{URL: base, Body: body}) },
		func() { readTokens(base, body) },
		func() { tree.read(base, body) },
	}
}

func (s pageShape) String() string {
	return fmt.Sprintf("page=%s/size=%d/links=%d", s.name, s.size, s.links)
}

func BenchmarkParse(b *testing.B) {
	for _, shape := range pageShapes() {
		body := pageBody(b, shape)
		names, fns := readers(b, shape.base(b), body)
		for i, name := range names {
			b.Run(fmt.Sprintf("%v/reader=%s", shape, name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					fns[i]()
				}
			})
		}
	}
}

// BenchmarkAgainstPeers runs the readers in turns, so that a busy machine slows all
// of them alike, and reports how many times longer the others take, by their
// fastest run and by the sum of all.
func BenchmarkAgainstPeers(b *testing.B) {
	for _, shape := range pageShapes() {
		b.Run(shape.String(), func(b *testing.B) {
			body := pageBody(b, shape)
			names, fns := readers(b, shape.base(b), body)
			sum, best := make([]time.Duration, len(fns)), make([]time.Duration, len(fns))
			for b.Loop() {
				for i, fn := range fns {
					start := time.Now()
					fn()
					d := time.Since(start)
					sum[i] += d
					if best[i] == 0 || d < best[i] {
						best[i] = d
					}
				}
			}
			for i, name := range names[1:] {
				b.ReportMetric(float64(sum[i+1])/float64(sum[0]), name+"/ours")
				b.ReportMetric(float64(best[i+1])/float64(best[0]), name+"/ours-best")
			}
			b.ReportMetric(float64(len(body))/best[0].Seconds()/1e6, "MB/s-best")
		})
	}
}

// BenchmarkKeys goes from a page to keys that can be deduplicated. Garbage may grow
// to 32 MB before it is collected, as in a crawl: on a heap of nothing but one page
// the collector would take as long as the parser.
func BenchmarkKeys(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	for _, shape := range pageShapes()[:2] {
		benchmarkKeys(b, shape)
	}
}

func benchmarkKeys(b *testing.B, shape pageShape) {
	b.Run(shape.String(), func(b *testing.B) {
		body, base := pageBody(b, shape), shape.base(b)
		p := newParser(b, Options{})
		h := weburl.NewHasher(1)
		var pg Page
		var keys []weburl.Key
		best := time.Hour
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			start := time.Now()
			p.Parse(&pg, Input{URL: base, Body: body})
			keys = appendKeys(keys[:0], h, &pg)
			best = min(best, time.Since(start))
		}
		if len(keys) < shape.links {
			b.Fatalf("%d keys", len(keys))
		}
		b.ReportMetric(float64(best.Nanoseconds()), "ns/op-best")
	})
}

// appendKeys computes the keys of a page's links. Most are of one host.
func appendKeys(keys []weburl.Key, h weburl.Hasher, pg *Page) []weburl.Key {
	var host string
	var id weburl.HostID
	for i := range pg.Links {
		u := pg.Links[i].URL
		if u.IsZero() {
			continue
		}
		if u.Host() != host {
			host = u.Host()
			id = h.HostID(host)
		}
		keys = append(keys, h.KeyOf(id, pg.URLText(i)))
	}
	return keys
}

// BenchmarkText reads the text of a page of testweb without its markup, plain and full of numbers.
func BenchmarkText(b *testing.B) {
	for _, name := range []string{"testweb", "testweb-numbers"} {
		b.Run("page="+name, func(b *testing.B) {
			body, u := pageBody(b, pageShape{name, 10 << 10, 30}), canonical(b, "http://h0.test/d3/p12345.html")
			var starts []int // of the texts behind tags
			size := 0
			for i := bytes.Index(body, []byte("<body")); i < len(body); {
				tag := bytes.IndexByte(body[i:], '>') + 1
				text := bytes.IndexByte(body[i+tag:], '<')
				if text < 0 {
					break
				}
				starts = append(starts, i+tag)
				size += text
				i += tag + text
			}
			var texts textHash
			best := time.Hour
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				texts.begin(u, false)
				for _, at := range starts {
					texts.scan(body, at)
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Nanoseconds())/float64(size), "ns/byte-best")
		})
	}
}

// BenchmarkHostile reads pages made to be slow. Time must stay linear: none may
// take much longer at four times the size.
func BenchmarkHostile(b *testing.B) {
	for _, page := range []struct{ name, head, body string }{
		{"text", "", "some plain text, "},
		{"less-than", "", "<"},
		{"open-tag", "", "<a "},
		{"attributes", "<a ", "a=b "},
		{"quotes", "", "<a b='"},
		{"comments", "", "<!--"},
		{"comment-ends", "<!--", "->"},
		{"declarations", "", "<!>"},
		{"unknown-references", "", "&unknow;"},
		{"known-references", "", "&eacute;"},
		{"ampersands", "", "&"},
		{"links", "", "<a href=x>"},
		{"bad-links", "", "<a href=http://[>"},
		{"raw-text", "<title>", "</titl"},
		{"script", "<script>", "<!----></scrip"},
		{"script-escaped", "<script>", "<!--<script></script>-->"},
		{"svg", "", "<svg><title>"},
		{"template", "", "<template>"},
		{"robots", "<meta name=robots content='" + strings.Repeat("abc,", 200) + "'>",
			"<meta name=robots content=a,b,c,d,e,f,g>"},
		{"dates", "", "<meta name=last-modified content=2024-02-30>"},
		{"types", "<script type=application/ld+json>[", `{"@type":"A"},`},
		{"brackets", "<script type=application/ld+json>", "["},
		{"headings", "", "<h1>a"},
		{"titles", "", "<title>a</title>"},
		{"cyrillic", "", "Привет, мир "},
		{"invalid", "", "\xff"},
	} {
		for _, size := range []int{1 << 18, 1 << 20} {
			b.Run(fmt.Sprintf("page=%s/size=%d", page.name, size), func(b *testing.B) {
				body := []byte(page.head + strings.Repeat(page.body, size/len(page.body)))
				p := newParser(b, Options{StructuredLinks: true})
				base, err := ParseURL("https://www.example.com/")
				if err != nil {
					b.Fatal(err)
				}
				var pg Page
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					p.Parse(&pg, Input{URL: base, Body: body})
				}
			})
		}
	}
}
