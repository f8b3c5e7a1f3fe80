package testweb

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// naiveRecrawl crawls a web again and again and judges what changed, as plainly as it can be done. It asks for
// everything twice, with and without conditions, so that it knows what a 304 hides.
type naiveRecrawl struct {
	t      *testing.T
	s      *Server
	client *http.Client
	crawls int
	pages  map[string]*naivePage
	listed map[string]time.Time       // lastmod by URL
	robots map[string]naiveRobots     // by origin
	maps   map[string]map[string]bool // what the sitemaps of an origin listed when they were read last
}

// naivePage is what is known of a URL.
type naivePage struct {
	first, changed, stale int
	facts                 naiveFacts
	change                string
	differences           []Difference
	named, notModified    bool
	misdated              bool // Last-Modified moved while the text stayed
	counted               int  // crawls in a row that saw another number in the text
	volatile              bool
}

type naiveFacts struct {
	outcome, location, title, canonical, text string
	status                                    int
	indexable, noindex                        bool
	etag, modified                            string
	links                                     []string
}

func newNaiveRecrawl(t *testing.T, s *Server) *naiveRecrawl {
	return &naiveRecrawl{
		t: t, s: s, client: newNaive(s, 1).client,
		pages: make(map[string]*naivePage), listed: make(map[string]time.Time), robots: make(map[string]naiveRobots),
		maps: make(map[string]map[string]bool),
	}
}

func (n *naiveRecrawl) close() { n.client.CloseIdleConnections() }

// ask requests a URL with conditions or without, and reads the answer.
func (n *naiveRecrawl) ask(raw string, conditions http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, raw, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header = conditions.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := n.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := decoder(resp)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(body)
	return a, err
}

// crawl visits all known URLs and those it finds.
func (n *naiveRecrawl) crawl() {
	var level, next []string
	seen := make(map[string]bool)
	for _, p := range n.pages {
		p.named = false
	}
	add := func(list *[]string, u string) {
		if !seen[u] {
			seen[u] = true
			*list = append(*list, u)
		}
		if p := n.pages[u]; p != nil {
			p.named = true
		} else {
			n.pages[u] = &naivePage{first: n.crawls, named: true}
		}
	}
	for _, start := range n.s.StartURLs() {
		add(&level, start)
		origin := strings.TrimSuffix(start, "/")
		if a, err := n.ask(origin+"/robots.txt", nil); err == nil && a.status == 200 {
			n.robots[origin] = parseNaiveRobots(string(a.body))
		}
		n.readSitemaps(origin)
		for u := range n.maps[origin] {
			add(&level, u)
		}
	}
	for u := range n.pages {
		if !seen[u] {
			seen[u] = true
			level = append(level, u)
		}
	}
	for len(level) > 0 {
		for i := 0; i < len(level); i++ {
			u := level[i]
			p := n.pages[u]
			n.visit(u, p)
			if p.facts.location != "" {
				add(&level, p.facts.location)
			}
			for _, link := range p.facts.links {
				if link != u {
					add(&next, link)
				}
			}
		}
		level, next = next, level[:0]
	}
	n.crawls++
}

// parseNaiveRobots reads rules that are for all crawlers.
func parseNaiveRobots(text string) (r naiveRobots) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "Disallow: "); ok {
			r.disallow = append(r.disallow, value)
		}
	}
	return r
}

// readSitemaps reads a host's sitemap, and keeps what it listed before if that fails.
func (n *naiveRecrawl) readSitemaps(origin string) {
	a, err := n.ask(origin+"/sitemap.xml", nil)
	if err != nil || a.status != 200 {
		return
	}
	var doc struct {
		URLs []struct {
			Loc     string `xml:"loc"`
			LastMod string `xml:"lastmod"`
		} `xml:"url"`
	}
	if err := xml.Unmarshal(a.body, &doc); err != nil {
		n.t.Fatal(err)
	}
	for u := range n.maps[origin] {
		delete(n.listed, u)
	}
	n.maps[origin] = make(map[string]bool)
	for _, u := range doc.URLs {
		n.maps[origin][u.Loc] = true
		if u.LastMod != "" {
			at, err := time.Parse(time.RFC3339, u.LastMod)
			if err != nil {
				n.t.Error(err)
			}
			n.listed[u.Loc] = at
		}
	}
}

// visit asks for a URL and judges the answer against what is known.
func (n *naiveRecrawl) visit(raw string, p *naivePage) {
	u, err := url.Parse(raw)
	if err != nil {
		n.t.Fatal(err)
	}
	isNew := p.first == n.crawls
	before := p.facts
	p.notModified, p.differences, p.change = false, nil, ChangeUnchanged
	var now naiveFacts
	if !n.robots[origin(u)].allowed(u.RequestURI()) {
		now = naiveFacts{outcome: OutcomeBlockedByRobots}
	} else {
		var a answer
		a, p.notModified, err = n.fetch(raw, before)
		switch {
		case err != nil:
			now = naiveFacts{outcome: OutcomeConnectError}
		default:
			now = n.read(u, a)
		}
		if failed := err != nil || a.status >= 500; failed && !isNew && p.stale < maxStale &&
			before.outcome != OutcomeConnectError && before.status < 500 {
			p.stale++
			p.change = ""
			return
		}
	}
	p.stale = 0
	p.facts = now
	if isNew {
		if p.change = ""; n.crawls > 0 {
			p.change = ChangeNew
		}
		return
	}
	p.judge(before, now, n.crawls)
}

// fetch asks with the validators of the last answer, if there are any, and without.
func (n *naiveRecrawl) fetch(raw string, before naiveFacts) (a answer, notModified bool, err error) {
	conditions := make(http.Header)
	if before.etag != "" {
		conditions.Set("If-None-Match", before.etag+", "+strings.Replace(before.etag, "-gzip\"", "\"", 1))
	}
	if before.modified != "" {
		conditions.Set("If-Modified-Since", before.modified)
	}
	var rules string
	if len(conditions) > 0 {
		if a, err = n.ask(raw, conditions); err != nil {
			return a, false, err
		}
		notModified, rules = a.status == http.StatusNotModified, a.header.Get("X-Robots-Tag")
	}
	if a, err = n.ask(raw, nil); err == nil && a.status == http.StatusNotModified {
		a, err = n.ask(raw, nil) // such an answer comes once
	}
	if notModified && a.header.Get("X-Robots-Tag") != rules {
		n.t.Errorf("%s: X-Robots-Tag %q with a 304, %q without", raw, rules, a.header.Get("X-Robots-Tag"))
	}
	return a, notModified, err
}

// read finds the facts of an answer.
func (n *naiveRecrawl) read(u *url.URL, a answer) naiveFacts {
	f := naiveFacts{status: a.status, outcome: OutcomeOK}
	switch {
	case a.status >= 400:
		f.outcome = OutcomeHTTPError
		return f
	case a.status >= 300:
		f.outcome, f.location = OutcomeRedirect, canonical(u, a.header.Get("Location"))
		return f
	}
	f.etag, f.modified = a.header.Get("ETag"), a.header.Get("Last-Modified")
	f.title, f.links = readPage(u, a)
	f.text, f.canonical, f.noindex = readVisible(n.t, a.body)
	f.noindex = f.noindex || a.header.Get("X-Robots-Tag") == "noindex"
	f.indexable = !f.noindex && f.canonical == u.String()
	return f
}

// readVisible returns the text that a reader sees, the canonical URL, and whether a robots meta element says noindex.
func readVisible(t *testing.T, body []byte) (text, canonical string, noindex bool) {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	attr := func(n *html.Node, name string) string {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		switch {
		case n.Type == html.ElementNode && n.Data == "link" && attr(n, "rel") == "canonical":
			canonical = attr(n, "href")
		case n.Type == html.ElementNode && n.Data == "meta" && attr(n, "name") == "robots":
			noindex = attr(n, "content") == "noindex"
		case n.Type == html.TextNode && n.Parent.Data != "script":
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " "), canonical, noindex
}

// judge says what changed.
func (p *naivePage) judge(before, now naiveFacts, crawl int) {
	add := func(field, b, a string) {
		if b != a {
			p.differences = append(p.differences, Difference{field, b, a})
		}
	}
	status := func(f naiveFacts) string {
		if f.status == 0 {
			return ""
		}
		return strconv.Itoa(f.status)
	}
	add("outcome", before.outcome, now.outcome)
	add("status_code", status(before), status(now))
	add("redirect_to", before.location, now.location)
	if now.outcome == OutcomeOK {
		add("title", before.title, now.title)
	}
	digitsOnly := false
	if before.outcome == OutcomeOK && now.outcome == OutcomeOK {
		add("canonical_url", before.canonical, now.canonical)
		add("noindex", fmt.Sprint(before.noindex), fmt.Sprint(now.noindex))
		if before.text != now.text {
			p.differences = append(p.differences, Difference{Field: "text_hash"})
			digitsOnly = withoutDigits(before.text) == withoutDigits(now.text) && (p.first > 0 || p.changed > 0)
		} else if before.modified != now.modified {
			p.misdated = true
		}
	}
	if p.counted++; !digitsOnly {
		p.counted = 0
	}
	p.volatile = p.counted >= 3
	if len(p.differences) == 0 {
		return
	}
	p.changed = crawl
	switch {
	case before.status == 200 && (now.status == 404 || now.status == 410):
		p.change = ChangeGone
	case (before.status == 404 || before.status == 410) && now.status == 200:
		p.change = ChangeBack
	default:
		p.change = ChangeChanged
	}
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
