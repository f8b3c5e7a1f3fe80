package parser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// purse grants memory up to a limit, and then refuses.
type purse struct {
	granted, limit int64
}

var errEmpty = errors.New("no memory is left")

func (p *purse) Reserve(_ context.Context, n int64) error {
	if p.granted+n > p.limit {
		return errEmpty
	}
	p.granted += n
	return nil
}

// manyLinks is a small page whose links are long because of its base.
func manyLinks(n, long int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<base href='/%s/'>", strings.Repeat("q", long))
	for i := range n {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	return []byte(b.String())
}

func TestMemory(t *testing.T) {
	const most = 2 << 20
	for _, test := range []struct {
		name        string
		links, long int
		limit       int64
		granted     int64
		kept        int
		refused     bool
	}{
		{name: "an ordinary page asks for nothing", links: 200, long: 100, kept: 200},
		{name: "memory is asked for before it is taken", links: 900, long: 400, limit: 1 << 30,
			granted: freeMemory * linkCopies, kept: 900},
		{name: "never more than the links may take", links: 5000, long: 1000, limit: 1 << 30,
			granted: (most + 3000*perLink - freeMemory) * linkCopies, kept: most / 1020},
		{name: "without it further links are left out", links: 1000, long: 1000, limit: 1,
			kept: freeMemory / (1020 + perLink), refused: true},
		{name: "short links need memory too", links: 3000, long: 1, limit: 1 << 30, granted: freeMemory * linkCopies,
			kept: 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := New(Options{MaxLinkBytes: most, MaxLinks: 3000})
			if err != nil {
				t.Fatal(err)
			}
			memory := &purse{limit: test.limit}
			pg := new(Page)
			err = p.Parse(pg, Input{URL: canonical(t, home), Body: manyLinks(test.links, test.long), Memory: memory})
			if test.refused != errors.Is(err, errEmpty) {
				t.Errorf("error %v", err)
			}
			if n := len(pg.Links); n < test.kept*99/100 || n > test.kept*101/100 {
				t.Errorf("%d links are kept, want about %d", n, test.kept)
			}
			if memory.granted != test.granted {
				t.Errorf("%d bytes are granted, want %d", memory.granted, test.granted)
			}
			err = p.Parse(pg, Input{URL: canonical(t, home), Body: []byte("<a href=x>")})
			if err != nil || len(pg.Links) != 1 {
				t.Errorf("the next page has %d links, error %v", len(pg.Links), err)
			}
		})
	}
}

// The values of extractors are asked for too, if they are large.
func TestMemoryOfExtractors(t *testing.T) {
	texts, err := ParseExtractor("texts=p")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Extract: []Extractor{texts}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ count, granted int64 }{{10, 0}, {200, 200 * 4000}} {
		body := strings.Repeat("<p>"+strings.Repeat("x", 4000)+"</p>", int(test.count))
		for limit, want := range map[int64]error{1 << 30: nil, test.granted - 1: errEmpty} {
			if test.granted == 0 {
				want = nil
			}
			memory := &purse{limit: limit}
			err := p.Parse(new(Page), Input{URL: canonical(t, home), Body: []byte(body), Memory: memory})
			if !errors.Is(err, want) || want == nil && memory.granted != test.granted {
				t.Errorf("%d values with a limit of %d: %d bytes are granted, want %d, error %v", test.count, limit,
					memory.granted, test.granted, err)
			}
		}
	}
}
