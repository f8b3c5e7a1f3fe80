package commands

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/e2e"
)

// richSite is a site with a page that has a bit of everything, and a robots.txt.
func richSite(t *testing.T) string {
	return e2e.Site(t, map[string]string{
		"/robots.txt": "User-agent: mapwright\nCrawl-delay: 2\nDisallow: /private\nAllow: /private/open\n",
		"/": `<html lang=en><title>Tea</title><meta property=og:type content=product><link rel=alternate hreflang=de href=/de>
			<img src=/tea.png><img src=/tea.png><p>two words</p><b class=x>v</b>
			<a href=/private/a>1</a><a href=/private/open>2</a><a href=/c>3</a>`,
		"/private/a": `<title>secret</title>`,
	}, func(path string, h http.Header) {
		h.Set("Etag", `"v1"`)
		h.Set("Last-Modified", "Mon, 02 Feb 2026 03:04:05 GMT")
	}).URL
}

// inspect describes a page as a crawl would: robots.txt decides about the page and its links.
func TestInspectAsksRobots(t *testing.T) {
	t.Parallel()
	root := richSite(t)
	got := e2e.Run(t, "inspect", "--json", "--allow-private", root)
	e2e.Succeeded(t, got)
	ins := e2e.Parse[inspection](t, got.Stdout)
	if ins.Robots == nil || ins.Robots.Evidence != "robots_allowed" || ins.Robots.CrawlDelay != 2 ||
		ins.Robots.Confidence != "high" {
		t.Errorf("robots %+v", ins.Robots)
	}
	follows := map[string]string{}
	for _, l := range ins.Links {
		follows[strings.TrimPrefix(*l.URL, root)] = fmt.Sprint(l.Follow, " ", l.Reason)
	}
	for path, want := range map[string]string{"/private/a": "false blocked_by_robots", "/private/open": "true ",
		"/c": "true ", "/de": "true ", "/tea.png": "false image"} {
		if follows[path] != want {
			t.Errorf("link to %s: %q, want %q", path, follows[path], want)
		}
	}
	if len(ins.Images) != 1 || ins.ETag != `"v1"` || ins.LastModified != "2026-02-02T03:04:05.000Z" ||
		len(ins.Hreflang) != 1 {
		t.Errorf("images %q, etag %q, last_modified %q, hreflang %v", ins.Images, ins.ETag, ins.LastModified,
			ins.Hreflang)
	}

	got = e2e.Run(t, "inspect", "--json", "--allow-private", root+"/private/a")
	e2e.Succeeded(t, got)
	ins = e2e.Parse[inspection](t, got.Stdout)
	if ins.Outcome != "blocked_by_robots" || ins.StatusCode != 0 || ins.Title != "" || ins.Robots == nil ||
		ins.Robots.Rule != "Disallow: /private" || ins.IndexableReason != "robots" {
		t.Errorf("a blocked page: %s", got.Stdout)
	}
	got = e2e.Run(t, "inspect", "--json", "--allow-private", "--ignore-robots", root+"/private/a")
	e2e.Succeeded(t, got)
	if ins = e2e.Parse[inspection](t, got.Stdout); ins.Outcome != "ok" || ins.Title != "secret" || ins.Robots != nil {
		t.Errorf("a blocked page with --ignore-robots: %s", got.Stdout)
	}
}

// The text of inspect has every fact of the page.
func TestInspectText(t *testing.T) {
	t.Parallel()
	root := richSite(t)
	says := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, "\n"+w) && !strings.HasPrefix(text, w) {
				t.Errorf("no line begins with %q in\n%s", w, text)
			}
		}
	}
	got := e2e.Run(t, "inspect", "--allow-private", "--extract", "b=.x", root)
	e2e.Succeeded(t, got)
	says(got.Stdout, "URL             "+root+"/\n", "Status          200\n", "Outcome         ok\n",
		"robots.txt      allowed, no line forbids it; crawl delay 2s\n", "Content type    text/html; charset=utf-8\n",
		"Content length  ",
		"ETag            \"v1\"\n", "Last modified   2026-02-02T03:04:05Z\n", "Title           Tea\n",
		"Language        en\n",
		"Hreflang        de "+root+"/de\n", "Open Graph      og:type product\n", "Extracted       b v\n",
		"Image           "+root+"/tea.png\n",
		"Indexable       yes\n", "  x a       "+root+"/private/a  (blocked_by_robots)\n",
		"    a       "+root+"/private/open\n")
	got = e2e.Run(t, "inspect", "--allow-private", root+"/private/a")
	e2e.Succeeded(t, got)
	says(got.Stdout, "Outcome         blocked_by_robots\n",
		"robots.txt      disallowed by the line \"Disallow: /private\"; not fetched (--ignore-robots fetches it all "+
			"the same); crawl delay 2s\n", "Indexable       no: robots\n")
	if strings.Contains(got.Stdout, "Links") {
		t.Errorf("links of a page that was not fetched:\n%s", got.Stdout)
	}
}

// The text of robots says what was decided and why, also where there are no rules.
func TestRobotsText(t *testing.T) {
	t.Parallel()
	text := func(args ...string) string {
		got := e2e.Run(t, append([]string{"robots", "--allow-private"}, args...)...)
		e2e.Succeeded(t, got)
		return strings.ReplaceAll(got.Stdout, "\n  ", "|")
	}
	none := e2e.Site(t, map[string]string{"/": "x"}, nil).URL
	failing := e2e.Site(t, nil, nil)
	failing.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	root := richSite(t)
	for _, tt := range []struct{ got, want string }{
		{text(root + "/private/a"), root +
			"/private/a: disallowed for Mapwright|rule: Disallow: /private (line 3)|group: mapwright|crawl delay: 2s\n"},
		{text(root + "/c"), root +
			"/c: allowed for Mapwright|rule: none matches, which allows|group: mapwright|crawl delay: 2s\n"},
		{text("--agent", "crawler1", root+"/private/a"), root +
			"/private/a: allowed for crawler1|group: none for crawler1 or *, which allows everything\n"},
		{text(none + "/a"), none +
			"/a: allowed for Mapwright|there is no robots.txt (404 Not Found); everything is allowed\n"},
		{text(failing.URL + "/a"), failing.URL +
			"/a: allowed for Mapwright|robots.txt could not be fetched (503 Service Unavailable); assuming that " +
			"everything is allowed\n"},
		{text("--robots-strict", failing.URL+"/a"), failing.URL +
			"/a: disallowed for Mapwright|robots.txt could not be fetched (503 Service Unavailable); everything is " +
			"disallowed (--robots-strict)\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("robots says\n%s, want\n%s", tt.got, tt.want)
		}
	}
}

// A group of robots.txt governs the crawler that it names and no other, in a crawl as in an explanation.
func TestRobotsTokensWithDigits(t *testing.T) {
	t.Parallel()
	s := e2e.Site(t, map[string]string{
		"/":           "<a href=/x>x</a>",
		"/x":          "x",
		"/robots.txt": "User-agent: crawler1\nDisallow: /x\n\nUser-agent: 360Spider\nDisallow: /x\n",
	}, nil)
	for agent, blocked := range map[string]bool{"crawler1/2.0": true, "Crawler1": true, "crawler3/2.0": false,
		"crawler": false, "360spider (x)": true, "Spider": false} {
		_, lines, _ := e2e.CrawlSite(t, s, "--user-agent", agent)
		if got := lines[s.URL+"/x"].Outcome == "blocked_by_robots"; got != blocked {
			t.Errorf("a crawl as %s: blocked %v, want %v", agent, got, blocked)
		}
		got := e2e.Run(t, "robots", "--json", "--allow-private", "--agent", agent, s.URL+"/x")
		e2e.Succeeded(t, got)
		if d := e2e.Parse[decision](t, got.Stdout); d.Allowed == blocked {
			t.Errorf("robots for %s: %+v", agent, d)
		}
	}
}

// A page from a file is read in its encoding, as one that is fetched, and its links' queries go out in it.
func TestInspectEncodings(t *testing.T) {
	t.Parallel()
	padding := "<!-- " + strings.Repeat("x", 2000) + " -->"
	for name, tt := range map[string]struct{ page, title, link string }{
		"UTF-8 after plain ASCII": {padding + "<title>é</title><a href='/?q=é'>x</a>", "é", "/?q=%C3%A9"},
		"a late meta element": {"<head>" + padding +
			"<meta charset=windows-1251><title>\xe6</title></head><a href='/?q=\xe6'>x</a>", "ж", "/?q=%E6"},
		"an early meta element": {"<meta charset=windows-1251><title>\xe6</title><a href='/?q=\xe6'>x</a>", "ж",
			"/?q=%E6"},
		"UTF-8 with a byte order mark": {"\xef\xbb\xbf<title>é</title><a href='/?q=é'>x</a>", "é", "/?q=%C3%A9"},
		"UTF-16":                       {"\xff\xfe<\x00t\x00i\x00t\x00l\x00e\x00>\x00\xe9\x00<\x00/\x00t\x00i\x00t\x00l\x00e\x00>\x00<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00/\x00?\x00q\x00=\x00\xe9\x00>\x00", "é", "/?q=%C3%A9"},
	} {
		got := e2e.Invocation{Args: []string{"inspect", "--json", "--base", "https://a.test/", "-"},
			Stdin: tt.page}.Run(t)
		e2e.Succeeded(t, got)
		ins := e2e.Parse[inspection](t, got.Stdout)
		if ins.Title != tt.title || len(ins.Links) != 1 || *ins.Links[0].URL != "https://a.test"+tt.link {
			t.Errorf("%s: title %q, links %+v", name, ins.Title, ins.Links)
		}
	}
}
