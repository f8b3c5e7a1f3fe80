package parser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// brief writes a link as kind, href, URL and what else there is to it.
func brief(l Link) string {
	s := fmt.Sprintf("%s %s %s", l.Kind, l.Href, l.URL)
	for _, more := range []struct{ name, value string }{{"rel", l.Rel}, {"text", l.Text}, {"fault", l.Fault.String()}} {
		if more.value != "" {
			s += " " + more.name + ":" + more.value
		}
	}
	if l.NoFollow {
		s += " nofollow"
	}
	return s
}

func TestLinks(t *testing.T) {
	for _, tt := range []struct{ html, want string }{
		{"<a href=x>t</a>", "a x https://example.com/dir/x text:t"},
		{"<a href='/x?a=1&amp;b=2#f'> a\n<b>b</b> </a>", "a /x?a=1&b=2#f https://example.com/x?a=1&b=2 text:a b"},
		{"<a href=''>", "a  https://example.com/dir/page?q=1"},
		{"<a href>", "a  https://example.com/dir/page?q=1"},
		{"<a name=x>t</a>", ""},
		{"<a href=x>a<a href=y>b</a>c", "a x https://example.com/dir/x text:a; a y https://example.com/dir/y text:b"},
		{"<a href=x>a<a>b", "a x https://example.com/dir/x text:a"},
		{"<a href=x>a<p>b</p>c<template>d</template></a>e", "a x https://example.com/dir/x text:a b c"},
		{"<a href=x>a&nbsp;b<!-- c -->d", "a x https://example.com/dir/x text:a\u00a0bd"},
		{"<a href=x rel=' NoFollow\tUGC '>", "a x https://example.com/dir/x rel:nofollow ugc nofollow"},
		{"<a href=x rel=nofollower>", "a x https://example.com/dir/x rel:nofollower"},
		{"<a href=mailto:a@b>", "a mailto:a@b  fault:scheme"},
		{"<a href='https://[x'>", "a https://[x  fault:invalid"},
		{"<a href=a href=b>", "a a https://example.com/dir/a"},
		{"<A HREF=x>", "a x https://example.com/dir/x"},
		{"<svg><a href=x>t</a></svg>", "a x https://example.com/dir/x text:t"},
		{"<a xlink:href=x>", ""},

		{"<area href=x rel=nofollow>", "area x https://example.com/dir/x rel:nofollow nofollow"},
		{"<iframe src=x><a href=y></iframe>", "iframe x https://example.com/dir/x"},
		{"<iframe src=''></iframe><iframe></iframe>", ""},
		{"<frame src=x>", "frame x https://example.com/dir/x"},
		{"<img src=x>", ""},

		{"<link rel=next href=x>", "link x https://example.com/dir/x rel:next"},
		{"<link rel=prev href=x>", "link x https://example.com/dir/x rel:prev"},
		{"<link rel=AmpHTML href=x>", "link x https://example.com/dir/x rel:amphtml"},
		{"<link rel='alternate stylesheet' href=x><link rel=stylesheet href=y><link rel=icon href=z><link href=w>", ""},

		{"<meta http-equiv=refresh content='5; URL=x'>", "refresh x https://example.com/dir/x"},
		{"<meta http-equiv=refresh content=5>", ""},

		{"<a href=x><base href=/b/><base href=/c/><a href=y>",
			"a x https://example.com/b/x; a y https://example.com/b/y"},
		{"<base target=x><base href=b/><a href=y>", "a y https://example.com/dir/b/y"},
		{"<base href=//other.example><a href=y>", "a y https://other.example/y"},
		{"<base href=javascript:x><a href=y>", "a y https://example.com/dir/y"},
		{"<base href=ftp://x/><a href=y><a href=https://e.com/>",
			"a y  fault:invalid; a https://e.com/ https://e.com/"},
		{"<base href='https://[x'><a href=y>", "a y https://example.com/dir/y"},
		{"<noscript><base href=/b/><a href=x></noscript><a href=y>",
			"a x https://example.com/dir/x; a y https://example.com/dir/y"},
		{"<template><noscript></template><base href=/b/><a href=y>", "a y https://example.com/b/y"},
		{"<template><base href=/b/></template><a href=y>", "a y https://example.com/dir/y"},
		{"<template><a href=x><template><a href=y></template><a href=z></template><a href=w>",
			"a w https://example.com/dir/w"},
		{"<template shadowrootmode=open><a href=x></a></template><a href=y>",
			"a x https://example.com/dir/x; a y https://example.com/dir/y"},
		{"<template shadowrootmode=odd><a href=x></a></template></template><a href=y>",
			"a y https://example.com/dir/y"},
		{"<noscript><a href=x></noscript>", "a x https://example.com/dir/x"},
		{"<textarea><a href=x></textarea><!-- <a href=y> --><a href=z", ""},
	} {
		var got []string
		for _, l := range read(t, Options{}, tt.html).Links {
			got = append(got, brief(l))
		}
		if got := strings.Join(got, "; "); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.html, got, tt.want)
		}
	}
}

func TestImages(t *testing.T) {
	for _, tt := range []struct{ html, want string }{
		{"<img src=x alt=' a &lt; b '>", "image x https://example.com/dir/x text:a < b"},
		{"<image src=x><svg><image src=y></svg>", "image x https://example.com/dir/x"},
		{"<img><img src=''>", ""},
		{"<img src=data:image/png;base64,xx srcset='a.png 1x, b.png 2x, c.png 1.5x'>",
			"image b.png https://example.com/dir/b.png"},
		{"<img srcset='a.png, b.png 640w, ,c.png 320w'>", "image b.png https://example.com/dir/b.png"},
		{"<img srcset='a.png future(1, 2) 640w, c.png 320w'>", "image c.png https://example.com/dir/c.png"},
		{"<img srcset=' a.png,'>", "image a.png https://example.com/dir/a.png"},
		{"<img src=data:image/gif;base64,xx data-src=lazy.png srcset=a.png>", "image lazy.png https://example.com/dir/lazy.png"},
	} {
		pg := read(t, Options{Images: true}, tt.html)
		var got []string
		for _, l := range pg.Links {
			got = append(got, brief(l))
		}
		if got := strings.Join(got, "; "); got != tt.want || pg.LinkCount != 0 {
			t.Errorf("%s\n got %s (%d links)\nwant %s", tt.html, got, pg.LinkCount, tt.want)
		}
	}
}

func TestLinkLimits(t *testing.T) {
	many := strings.Repeat("<a href=x>t</a>", 50)
	pg := read(t, Options{MaxLinks: 10}, many)
	if len(pg.Links) != 10 || pg.LinkCount != 50 || !pg.Truncated {
		t.Errorf("%d links of %d, truncated %v", len(pg.Links), pg.LinkCount, pg.Truncated)
	}
	if pg := read(t, Options{MaxLinks: 50}, many); len(pg.Links) != 50 || pg.Truncated {
		t.Errorf("%d links, truncated %v", len(pg.Links), pg.Truncated)
	}

	pg = read(t, Options{MaxLinkBytes: 200}, many)
	if len(pg.Links) == 0 || len(pg.Links) >= 50 || !pg.Truncated || pg.LinkCount != 50 {
		t.Errorf("%d links of %d, truncated %v", len(pg.Links), pg.LinkCount, pg.Truncated)
	}

	// A long base found late must not multiply what was found before.
	pg = read(t, Options{MaxLinkBytes: 10_000}, many+"<base href=/"+strings.Repeat("b", 5000)+"/>")
	kept := 0
	for _, l := range pg.Links {
		if !l.URL.IsZero() {
			kept++
		}
	}
	if kept == 50 || !pg.Truncated {
		t.Errorf("%d URLs of more than 5,000 bytes in 10,000", kept)
	}

	// The parameters of a base are removed once, and not for each link. No link is read after one that is too much.
	params, err := weburl.NewParams([]string{"a*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := "<base href='/?" + strings.Repeat("a&", 2000) + "'>"
	pg = read(t, Options{MaxLinkBytes: 10_000, Params: params}, base+strings.Repeat("<a href>", 50)+"<a href=/x>")
	if len(pg.Links) != 51 || pg.Truncated || pg.Links[49].URL.String() != "https://example.com/" {
		t.Errorf("%d links of %d, truncated %v, the last but one is %s", len(pg.Links), pg.LinkCount, pg.Truncated,
			pg.Links[len(pg.Links)-2].URL)
	}
	path := "<base href='/" + strings.Repeat("a", 4000) + "/'>"
	pg = read(t, Options{MaxLinkBytes: 10_000, Params: params}, path+strings.Repeat("<a href='?a'>", 50)+"<a href=/x>")
	if len(pg.Links) != 2 || !pg.Truncated || pg.LinkCount != 51 {
		t.Errorf("%d links of %d, truncated %v", len(pg.Links), pg.LinkCount, pg.Truncated)
	}

	long := strings.Repeat("é", 10_000)
	pg = read(t, Options{}, "<a href="+long+">"+long+"</a>")
	if l := pg.Links[0]; len(l.Href) != maxHref || l.Fault != FaultTooLong || !l.URL.IsZero() ||
		len(l.Text) != maxText {
		t.Errorf("href of %d bytes, fault %q, URL %q, text of %d bytes", len(l.Href), l.Fault, l.URL, len(l.Text))
	}
	huge := "<a href='" + strings.Repeat("&amp;", 1<<20) + "' rel=" + strings.Repeat("x", 1<<20) + "><a href=y>"
	if pg = read(t, Options{}, huge); len(pg.Links) != 2 || pg.Links[0].Fault != FaultTooLong {
		t.Errorf("%d links, the first with fault %q", len(pg.Links), pg.Links[0].Fault)
	}
}

// TestBuffersShrink makes sure that one large page does not set what a worker
// holds for good.
func TestBuffersShrink(t *testing.T) {
	p := newParser(t, Options{})
	var pg Page
	parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte(strings.Repeat("<a href=x>some text</a>", 19_000))})
	if len(pg.Links) != 19_000 {
		t.Fatalf("%d links", len(pg.Links))
	}
	parse(t, p, &pg, Input{URL: canonical(t, home), Body: []byte("<a href=x>t</a>")})
	if cap(pg.Links) > keepLinks || cap(pg.walker.links) > keepLinks || cap(pg.walker.arena) > keepArena {
		t.Errorf("a small page keeps memory for %d links, %d records, %d bytes", cap(pg.Links), cap(pg.walker.links),
			cap(pg.walker.arena))
	}
}

func TestKindNames(t *testing.T) {
	var kinds, faults []string
	for k := KindA; k <= KindAsset+1; k++ {
		kinds = append(kinds, k.String())
	}
	for f := FaultNone; f <= FaultTooLong+1; f++ {
		faults = append(faults, f.String())
	}
	if got := strings.Join(kinds, " "); got != "a area link iframe frame refresh header image asset unknown" {
		t.Errorf("kinds are %s", got)
	}
	if got := strings.Join(faults, " "); got != " scheme invalid too_long unknown" {
		t.Errorf("faults are %s", got)
	}
}
