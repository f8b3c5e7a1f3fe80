package testweb

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/xml"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

func (n *naive) fetchRobots(u *url.URL) naiveRobots {
	at := u.JoinPath("/robots.txt")
	a, err := n.get(at)
	for range 5 {
		if err != nil || a.status/100 != 3 {
			break
		}
		at, _ = url.Parse(a.header.Get("Location"))
		a, err = n.get(at)
	}
	if a.status == 429 {
		time.Sleep(retryAfter(a.header))
	}
	var r naiveRobots
	if err != nil || a.status != 200 {
		return r
	}
	for line := range strings.Lines(string(a.body[:min(len(a.body), robotsLimit)])) {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "user-agent":
			r = naiveRobots{} // the last group is ours
		case "disallow":
			if value != "" {
				r.disallow = append(r.disallow, value)
			}
		case "allow":
			r.allow = append(r.allow, value)
		case "crawl-delay":
			secs, _ := strconv.ParseFloat(value, 64)
			r.delay = time.Duration(secs * float64(time.Second))
		case "sitemap":
			r.sitemaps = append(r.sitemaps, value)
		}
	}
	return r
}

func (r naiveRobots) allowed(uri string) bool {
	longest := func(rules []string) int {
		most := -1
		for _, rule := range rules {
			if rest, ok := strings.CutPrefix(rule, "/*"); ok { // only with a $
				if strings.HasSuffix(uri, strings.TrimSuffix(rest, "$")) {
					most = max(most, len(rule))
				}
			} else if strings.HasPrefix(uri, rule) {
				most = max(most, len(rule))
			}
		}
		return most
	}
	d := longest(r.disallow)
	return d < 0 || longest(r.allow) >= d
}

// sitemap returns what the sitemaps of a host list.
func (n *naive) sitemap(u *url.URL, r naiveRobots) []string {
	todo := r.sitemaps
	if len(todo) == 0 {
		todo = []string{u.JoinPath("/sitemap.xml").String()}
	}
	var locs []string
	for len(todo) > 0 {
		at, _ := url.Parse(todo[0])
		todo = todo[1:]
		a, err := n.get(at)
		if err != nil || a.status != 200 {
			continue
		}
		var body io.Reader = bytes.NewReader(a.body)
		if strings.HasSuffix(at.Path, ".gz") {
			if body, err = gzip.NewReader(body); err != nil {
				panic(err)
			}
		}
		var doc struct {
			Sitemaps []string `xml:"sitemap>loc"`
			URLs     []string `xml:"url>loc"`
		}
		if err := xml.NewDecoder(body).Decode(&doc); err != nil {
			panic(err)
		}
		todo = append(todo, doc.Sitemaps...)
		locs = append(locs, doc.URLs...)
	}
	return locs
}

// readPage returns the title and the links to follow.
func readPage(u *url.URL, a answer) (title string, links []string) {
	text, err := charset.NewReader(bytes.NewReader(a.body), a.header.Get("Content-Type"))
	if err != nil {
		panic(err)
	}
	body, err := io.ReadAll(text)
	if err != nil {
		panic(err)
	}
	doc, err := html.ParseWithOptions(strings.NewReader(strings.TrimPrefix(string(body), "\ufeff")),
		html.ParseOptionEnableScripting(false))
	if err != nil {
		panic(err)
	}
	base := u
	add := func(href string) {
		if c := canonical(base, href); c != "" {
			links = append(links, c)
		}
	}
	for _, v := range a.header.Values("Link") {
		add(strings.TrimPrefix(v[:strings.IndexByte(v, '>')], "<"))
	}
	nofollow := false
	for node := range doc.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		attr := func(name string) string {
			for _, at := range node.Attr {
				if at.Key == name {
					return at.Val
				}
			}
			return ""
		}
		rel := attr("rel")
		switch node.Data {
		case "title":
			if node.FirstChild != nil {
				title = cmp.Or(title, node.FirstChild.Data)
			}
		case "base":
			base, _ = u.Parse(attr("href"))
		case "a", "area":
			if rel != "nofollow" && attr("href") != "" {
				add(attr("href"))
			}
		case "iframe", "frame":
			add(attr("src"))
		case "link":
			switch rel {
			case "canonical", "next", "prev", "alternate", "amphtml":
				add(attr("href"))
			}
		case "meta":
			if _, to, ok := strings.Cut(attr("content"), "url="); ok && attr("http-equiv") == "refresh" {
				add(to)
			}
			nofollow = nofollow || attr("name") == "robots" && attr("content") == "nofollow"
		}
	}
	if nofollow {
		links = nil
	}
	return title, links
}

// canonical resolves a link as far as this web needs it, or returns nothing.
func canonical(base *url.URL, href string) string {
	href = strings.NewReplacer("\t", "", "\n", "", "\r", "", "\\", "/").Replace(strings.TrimSpace(href))
	href = strings.ReplaceAll(href, "%64", "d")
	u, err := base.Parse(href)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	u.Fragment = ""
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}
