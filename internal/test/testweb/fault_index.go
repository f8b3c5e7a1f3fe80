package testweb

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// NoIndex adds pages that ask not to be indexed, by meta element and by
// X-Robots-Tag in turn. What they link to is to be found all the same.
type NoIndex struct {
	Count int `yaml:"count"` // Zero means 2
}

// Canonical adds pages whose canonical URL is another page of the host.
type Canonical struct {
	Count int `yaml:"count"` // Zero means 1
}

// NoFollow adds pages that only links with rel=nofollow lead to, and a page that asks
// by meta element that none of its links be followed.
type NoFollow struct {
	Count int `yaml:"count"` // Zero means 1
}

// Hreflang adds one page in several languages. The tree links to the first; the
// others are found by their alternates.
type Hreflang struct {
	Languages []string `yaml:"languages"` // Empty means en, de and fr
}

func (NoIndex) Kind() string   { return "noindex" }
func (Canonical) Kind() string { return "canonical" }
func (NoFollow) Kind() string  { return "nofollow" }
func (Hreflang) Kind() string  { return "hreflang" }

func (f NoIndex) validate(Config) error   { return notNegative("count", f.Count) }
func (f Canonical) validate(Config) error { return notNegative("count", f.Count) }
func (f NoFollow) validate(Config) error  { return notNegative("count", f.Count) }

// withHead puts an element into a simple page's head.
func withHead(page, element string) string {
	return strings.Replace(page, "</head>", element+"\n</head>", 1)
}

func (f NoIndex) install(p *plan, _ *web) {
	f.Count = cmp.Or(f.Count, 2)
	for i := range f.Count {
		uri := "/noindex/" + strconv.Itoa(i)
		below := uri + "/below"
		body, extra := simplePage("Not for the index", anchors(below)), ""
		if i%2 == 0 {
			body = withHead(body, "<meta name=\"robots\" content=\"noindex\">")
		} else {
			extra = "X-Robots-Tag: noindex\r\n"
		}
		l := bodyLeaf(uri, typeHTML, extra, body)
		l.links = follow(below)
		l.verdict = func(Crawl) verdict {
			return verdict{outcomes: []string{OutcomeOK}, status: http.StatusOK, title: "Not for the index"}
		}
		p.add(l, pageLeaf(below, "Below one that is not for the index"))
	}
}

func (f Canonical) install(p *plan, w *web) {
	for i := range max(f.Count, 1) {
		uri := "/copy?of=" + strconv.Itoa(i)
		node := i % w.cfg.Pages
		target := string(w.appendURI(nil, 0, node))
		p.add(leaf{
			uri:  uri,
			href: uri,
			answer: func(x *exchange) {
				x.html(withHead(simplePage("A copy", ""), "<link rel=\"canonical\" href=\""+x.url(target)+"\">"))
			},
			links: follow(target),
			verdict: func(Crawl) verdict {
				return verdict{outcomes: []string{OutcomeOK}, status: http.StatusOK, title: "A copy"}
			},
		})
	}
}

func (f NoFollow) install(p *plan, _ *web) {
	for i := range max(f.Count, 1) {
		l := pageLeaf("/nofollow/"+strconv.Itoa(i), "Behind nofollow").linked().baited()
		l.nofollow = true
		p.add(l)
	}
	const bait = "/nofollow/by-meta"
	l := bodyLeaf("/nofollow/meta", typeHTML, "",
		withHead(simplePage("No link counts", anchors(bait)), "<meta name=\"robots\" content=\"nofollow\">"))
	l.links = []leafLink{{uri: bait, nofollow: true}}
	l.verdict = func(Crawl) verdict { return ok("No link counts") }
	p.add(l, pageLeaf(bait, "Behind a meta nofollow").baited())
}

func (f Hreflang) validate(Config) error {
	for _, l := range f.Languages {
		if l == "" || strings.Trim(l, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return fmt.Errorf("language %q: want letters and hyphens", l)
		}
	}
	return nil
}

func (f Hreflang) install(p *plan, _ *web) {
	if len(f.Languages) == 0 {
		f.Languages = []string{"en", "de", "fr"}
	}
	uri := func(lang string) string { return "/lang/" + lang + "/" }
	var all []string
	for _, lang := range f.Languages {
		all = append(all, uri(lang))
	}
	for i, lang := range f.Languages {
		title := "Page in " + lang
		l := leaf{
			uri: uri(lang),
			answer: func(x *exchange) {
				page := simplePage(title, "")
				for _, other := range f.Languages {
					page = withHead(page, fmt.Sprintf("<link rel=\"alternate\" hreflang=\"%s\" href=\"%s\">", other,
						x.url(uri(other))))
				}
				x.html(strings.Replace(page, "lang=\"en\"", "lang=\""+lang+"\"", 1))
			},
			links:   follow(all...),
			verdict: func(Crawl) verdict { return ok(title) },
		}
		if i == 0 {
			l = l.linked()
		}
		p.add(l)
	}
}
