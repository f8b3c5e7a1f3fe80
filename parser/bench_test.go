package parser

import (
	"fmt"
	"testing"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

func BenchmarkParse(b *testing.B) {
	for _, shape := range pageShapes() {
		body := generatePage(shape)
		base, _ := ParseURL("https://www.example.com/walks/harbour-at-dawn?page=2")
		name := fmt.Sprintf("page=%s/size=%d/links=%d", shape.name, shape.size, shape.links)
		b.Run(name+"/reader=mapwright", func(b *testing.B) {
			p := newParser(b, Options{})
			var pg Page
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				p.Parse(&pg, Input{URL: base, Body: body})
			}
		})
	}
}

// BenchmarkKeys goes from the page to keys that can be deduplicated.
func BenchmarkKeys(b *testing.B) {
	body := generatePage(pageShapes()[0])
	base, _ := ParseURL("https://www.example.com/walks/harbour-at-dawn?page=2")
	p := newParser(b, Options{})
	h := urlnorm.NewHasher(1)
	var pg Page
	var keys []urlnorm.Key
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p.Parse(&pg, Input{URL: base, Body: body})
		keys = keys[:0]
		host, id := "", urlnorm.HostID(0)
		for i := range pg.Links {
			l := &pg.Links[i]
			if l.URL.IsZero() {
				continue
			}
			if l.URL.Host() != host {
				host = l.URL.Host()
				id = h.HostID(host)
			}
			keys = append(keys, h.KeyOf(id, pg.URLText(i)))
		}
	}
	b.ReportMetric(float64(len(keys)), "keys")
}
