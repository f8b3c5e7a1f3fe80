package testweb

import "net/http"

// Malformed adds a page of broken HTML whose links browsers still find, among things
// that look like links and are none.
type Malformed struct{}

// LinkZoo adds pages with a link of every kind that a crawl follows, each to a page of
// its own, and embedded things that it does not follow.
type LinkZoo struct{}

func (Malformed) Kind() string { return "malformed" }
func (LinkZoo) Kind() string   { return "link_zoo" }

func (Malformed) validate(Config) error { return nil }

func (Malformed) install(p *plan, _ *web) {
	const body = "<title>Broken & <b>bold</title><body><p><b>Nothing is <i>closed</b> here" +
		"<!-- <a href=\"/malformed/bait\">no</a> -- > <a href=\"/malformed/bait\">no</a> -->\n" +
		"<script>document.write('<a href=\"/malformed/bait\">no<\\/a>')</script>\n" +
		"<style>a::after{content:'<a href=/malformed/bait>'}</style>\n" +
		"<textarea><a href=\"/malformed/bait\">no</a></textarea>\n" +
		"<a href=/malformed/unquoted>x<a href='/malformed/single'>x\n" +
		"<A HREF=\"/malformed/upper\">x</A ><a\n\thref\n=\n\"/malformed/spaced\"x=y>x\n" +
		"<a href=\"/malformed/entity?a=1&amp;b=2&c=3\">x<a href=\" \t/malformed/trimmed\n\">x\n" +
		"<a href=\"/malformed/line\nbreak\">x<a href=\"/malformed/first\" href=\"/malformed/bait\">x\n" +
		"<a title=\"a > b\" href=\"/malformed/quoted-gt\">x<a/href=\"/malformed/slash\">x\n" +
		"<a href=\"/malformed\\back\\slash\">x</p></div></table></html>\n" +
		"<a href=\"/malformed/after-end\">x</a>\n" +
		"<a name=anchor>x</a><a href=\"http://[broken\">x</a><a href=\"http://\">x</a><a>x</a>\n" +
		"<a href=\"/malformed/bait"
	const bait = "/malformed/bait"
	links := []string{
		"/malformed/unquoted", "/malformed/single", "/malformed/upper", "/malformed/spaced",
		"/malformed/entity?a=1&b=2&c=3", "/malformed/trimmed", "/malformed/linebreak", "/malformed/first",
		"/malformed/quoted-gt", "/malformed/slash", "/malformed/back/slash", "/malformed/after-end",
	}
	l := bodyLeaf("/malformed/", typeHTML, "", body)
	l.verdict = func(Crawl) verdict { return ok("Broken & <b>bold") }
	l.links = follow(links...)
	p.add(l, pageLeaf(bait, "Bait").baited())
	for _, uri := range links {
		p.add(pageLeaf(uri, "Found"))
	}
}

func (LinkZoo) validate(Config) error { return nil }

func (LinkZoo) install(p *plan, _ *web) {
	const zoo = "<!DOCTYPE html>\n<html><head><title>Zoo</title>\n" +
		"<link rel=\"next\" href=\"/zoo/next\"><link rel=prev href=/zoo/prev>\n" +
		"<link rel=\"alternate\" hreflang=\"fr\" href=\"/zoo/alternate\"><link rel=\"amphtml\" href=\"/zoo/amp\">\n" +
		"<link rel=\"stylesheet\" href=\"/zoo/bait\"><link rel=\"icon\" href=\"/zoo/bait\"><link rel=\"preload\" " +
		"as=\"script\" href=\"/zoo/bait\">\n" +
		"<script src=\"/zoo/bait\"></script></head><body>\n" +
		"<a href=\"/zoo/a\">a</a> <map name=m><area href=\"/zoo/area\" alt=\"\"></map>\n" +
		"<iframe src=\"/zoo/iframe\"></iframe><noscript><a href=\"/zoo/noscript\">n</a></noscript>\n" +
		"<img src=\"/zoo/bait\" alt=\"\"><form action=\"/zoo/bait\"><input></form><video src=\"/zoo/bait\"></video>\n" +
		"<object data=\"/zoo/bait\"></object><p data-href=\"/zoo/bait\">p</p>\n" +
		"<a href=\"/zoo/based\">b</a> <a href=\"/zoo/frames\">f</a> <a href=\"/zoo/refreshed\">r</a></body></html>\n"
	const based = "<!DOCTYPE html>\n<html><head><title>Based</title><base href=\"/zoo/base/\"></head><body><a " +
		"href=\"below\">b</a></body></html>\n"
	const frames = "<!DOCTYPE html>\n<html><head><title>Frames</title></head><frameset><frame " +
		"src=\"/zoo/frame\"></frameset></html>\n"
	const refreshed = "<!DOCTYPE html>\n<html><head><title>Refresh</title><meta http-equiv=\"refresh\" content=\"5; " +
		"url=/zoo/refresh\"></head><body></body></html>\n"

	page := func(uri, title, extra, body string, links ...string) leaf {
		return leaf{
			uri:     uri,
			answer:  func(x *exchange) { x.reply(http.StatusOK, typeHTML, extra, body) },
			verdict: func(Crawl) verdict { return ok(title) },
			links:   follow(links...),
		}
	}
	p.add(
		page("/zoo/", "Zoo", "Link: </zoo/header>; rel=\"next\"\r\n", zoo,
			"/zoo/header", "/zoo/next", "/zoo/prev", "/zoo/alternate", "/zoo/amp", "/zoo/a", "/zoo/area",
			"/zoo/iframe", "/zoo/noscript", "/zoo/based", "/zoo/frames", "/zoo/refreshed").linked(),
		page("/zoo/based", "Based", "", based, "/zoo/base/below"),
		page("/zoo/frames", "Frames", "", frames, "/zoo/frame"),
		page("/zoo/refreshed", "Refresh", "", refreshed, "/zoo/refresh"),
		pageLeaf("/zoo/bait", "Bait").baited(),
	)
	for _, name := range []string{
		"header", "next", "prev", "alternate", "amp", "a", "area", "iframe", "noscript", "base/below", "frame",
		"refresh",
	} {
		p.add(pageLeaf("/zoo/"+name, "Found by "+name))
	}
}
