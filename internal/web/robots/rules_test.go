package robots

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestMatch(t *testing.T) {
	const agent = "User-agent: bot\n"
	tests := []struct {
		name, file, path string
		allowed          bool
		rule             string
		line             int
	}{
		{"nothing applies", "", "/x", true, "", 0},
		{"no rule matches", agent + "Disallow: /y", "/x", true, "", 0},
		{"as written", agent + " disALLOW :  /x y  # why", "/x%20y/z", false, "disALLOW :  /x y", 2},
		{"longest", agent + "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/b/x", true, "Allow: /a/b", 3},
		{"deepest", agent + "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/b/c", false, "Disallow: /a/b/c", 4},
		{"back up", agent + "Disallow: /a\nAllow: /a/b\nDisallow: /a/b/c", "/a/c", false, "Disallow: /a", 2},
		{"tie", agent + "Disallow: /a\nAllow: /a", "/a", true, "Allow: /a", 3},
		{"tie with star", agent + "Disallow: /ab\nAllow: /*b", "/ab", true, "Allow: /*b", 3},
		{"first of equals", agent + "Disallow: /a\nDisallow: /a", "/a", false, "Disallow: /a", 2},
		{"star longer than plain", agent + "Allow: /a\nDisallow: /*.gif", "/a.gif", false, "Disallow: /*.gif", 3},
		{"star shorter than plain", agent + "Allow: /abcdefg\nDisallow: /*.gif", "/abcdefg.gif", true,
			"Allow: /abcdefg", 2},
		{"anchored", agent + "Disallow: /a$", "/a", false, "Disallow: /a$", 2},
		{"anchored, longer path", agent + "Disallow: /a$", "/ab", true, "", 0},
		{"anchored star", agent + "Disallow: /*.php$", "/a.php/b.php", false, "Disallow: /*.php$", 2},
		{"star dollar", agent + "Disallow: /a*$", "/abc", false, "Disallow: /a*$", 2},
		{"many stars", agent + "Disallow: /*a*b*c$", "/xaxbxcxc", false, "Disallow: /*a*b*c$", 2},
		{"pieces in order", agent + "Disallow: /*b*a", "/ab", true, "", 0},
		{"pieces do not overlap", agent + "Disallow: /*aa*a$", "/aa", true, "", 0},
		{"leading star", agent + "Disallow: *x", "/ax", false, "Disallow: *x", 2},
		{"dollar within", agent + "Disallow: /a$b", "/a$b", false, "Disallow: /a$b", 2},
		{"escaped star", agent + "Disallow: /a%2A", "/a*b", false, "Disallow: /a%2A", 2},
		{"escaped star is no wildcard", agent + "Disallow: /a%2Ac", "/abc", true, "", 0},
		{"escaped dollar", agent + "Disallow: /a%24", "/a$b", false, "Disallow: /a%24", 2},
		{"pattern without slash", agent + "Disallow: a", "/a", true, "", 0},
		{"robots.txt itself", agent + "Disallow: /", "/robots.txt", true, "", 0},
		{"empty path", agent + "Disallow: /", "", false, "Disallow: /", 2},
		{"query", agent + "Disallow: /*?s=", "/a?s=1", false, "Disallow: /*?s=", 2},
		{"RFC 9309 2.2.2, plain query", agent + "Disallow: /foo/bar?baz=https://foo.bar",
			"/foo/bar?baz=https%3A%2F%2Ffoo.bar", false, "Disallow: /foo/bar?baz=https://foo.bar", 2},
		{"RFC 9309 2.2.2, escaped query", agent + "Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar",
			"/foo/bar?baz=https://foo.bar", false, "Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar", 2},
		{"escape kept in both", agent + "Disallow: /*%2f", "/a?b=%2F", false, "Disallow: /*%2f", 2},
		{"slash is not its escape in a path", agent + "Disallow: /a/b", "/a%2Fb", true, "", 0},
		{"unreserved escaped", agent + "Disallow: /%62%61%7A", "/baz", false, "Disallow: /%62%61%7A", 2},
		{"lower-case hex", agent + "Disallow: /%e3%83%84", "/%E3%83%84", false, "Disallow: /%e3%83%84", 2},
		{"stray percent", agent + "Disallow: /100%", "/100%/x", false, "Disallow: /100%", 2},
		{"bar written or escaped", agent + "Disallow: /a|b", "/a%7Cb", false, "Disallow: /a|b", 2},
		{"index page", agent + "Allow: /a/index.html\nDisallow: /", "/a/", true, "Allow: /a/index.html", 2},
		{"index page only there", agent + "Allow: /a/index.html\nDisallow: /", "/a/b", false, "Disallow: /", 3},
		{"disallowed index page", agent + "Disallow: /a/index.html", "/a/", true, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := Match{Allowed: tt.allowed, Rule: tt.rule, Line: tt.line}
			if got := Parse([]byte(tt.file)).Agent("Bot").Match(tt.path); got != want {
				t.Errorf("Match(%q) = %+v, want %+v", tt.path, got, want)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	tests := []struct {
		name, file, agent string
		group             string
		rules             int
		delay             time.Duration
		paced             bool
	}{
		{"none", "Disallow: /", "a", "", 0, 0, false},
		{"star", "User-agent: *\nDisallow: /", "a", "*", 1, 0, false},
		{"star with remark", "User-agent: * all\nDisallow: /", "a", "*", 1, 0, false},
		{"own over star", "User-agent: *\nDisallow: /\nUser-agent: A\n", "a", "A", 0, 0, false},
		{"merged", "User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /y\nUser-agent: A/2.0\nDisallow: /z", "a",
			"a", 2, 0, false},
		{"not a prefix", "User-agent: ab\nDisallow: /x", "a", "", 0, 0, false},
		{"invalid token asks for all", "User-agent: *\nDisallow: /", "a/1", "*", 1, 0, false},
		{"delay", "User-agent: *\nCrawl-delay: 1.5\nDisallow: /", "a", "*", 1, 1500 * time.Millisecond, true},
		{"delay of nought", "User-agent: *\nCrawl-delay: 0", "a", "*", 0, 0, true},
		{"delay of another", "User-agent: b\nCrawl-delay: 9\nUser-agent: *\nDisallow: /", "a", "*", 1, 0, false},
		{"delay does not close a group", "User-agent: b\nCrawl-delay: 9\nUser-agent: *\nDisallow: /", "b", "b", 1,
			9 * time.Second, true},
		{"delay of the last", "User-agent: b\nCrawl-delay: 9\nUser-agent: a\nCrawl-delay: 2\nDisallow: /", "a", "a", 1,
			2 * time.Second, true},
		{"delay of two", "User-agent: a\nUser-agent: b\nCrawl-delay: 9\nDisallow: /", "a", "a", 1, 9 * time.Second,
			true},
		{"longer delay", "User-agent: a\nCrawl-delay: 9\nDisallow: /\nCrawl-delay: 3\n", "a", "a", 1, 9 * time.Second,
			true},
		{"delay before any agent", "Crawl-delay: 9\nUser-agent: a\n", "a", "a", 0, 0, false},
		{"delay of the star is not inherited", "User-agent: *\nCrawl-delay: 9\nDisallow:\nUser-agent: a\nDisallow: /",
			"a", "a", 1, 0, false},
		{"misspelt", "useragent: a\nuser agent: b\ndisalow: /1\ndissallow: /2\ndissalow: /3\ndiasllow: /4\ndisallaw " +
			"/5\nCrawldelay 7", "b", "b", 5, 7 * time.Second, true},
		{"sitemap does not close", "User-agent: a\nSitemap: x\nUser-agent: b\nDisallow: /", "a", "a", 1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse([]byte(tt.file)).Agent(tt.agent)
			delay, paced := r.CrawlDelay()
			if r.Group() != tt.group || r.Len() != tt.rules || delay != tt.delay || paced != tt.paced {
				t.Errorf("group %q, %d rules, delay %v %v; want %q, %d, %v %v",
					r.Group(), r.Len(), delay, paced, tt.group, tt.rules, tt.delay, tt.paced)
			}
		})
	}
}

func TestParseDelay(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"", 0, false}, {"x", 0, false}, {"-1", 0, false}, {".", 0, false}, {"1.2.3", 0, false}, {"nan", 0, false},
		{"inf", 0, false},
		{"1", time.Second, true}, {".5", 500 * time.Millisecond, true}, {"2.", 2 * time.Second, true},
		{"10s", 10 * time.Second, true},
		{"0.001", time.Millisecond, true}, {strings.Repeat("9", 400), longestDelay, true}, {"1e9", time.Second, true},
	}
	for _, tt := range tests {
		if got, ok := parseDelay(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("parseDelay(%.20q) = %v %v, want %v %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

func TestSizeLimit(t *testing.T) {
	head := "User-agent: *\nDisallow: /a\n#"
	fill := strings.Repeat("x", MaxSize-len(head)-len("\nDisallow: /"))
	f := Parse([]byte(head + fill + "\nDisallow: /only/this\nDisallow: /b\n"))
	r := f.Agent("a")
	if got := r.Match("/c"); !got.Allowed {
		t.Errorf("half a rule was obeyed: %+v", got)
	}
	if got := r.Match("/a"); got.Allowed {
		t.Error("rule before the limit was not obeyed")
	}
	if got := r.Match("/b"); !got.Allowed {
		t.Errorf("rule beyond the limit was read: %+v", got)
	}
}

func TestSitemaps(t *testing.T) {
	f := Parse([]byte("\xef\xbb\xbfSitemap: https://a.example/1.xml # one\rSITE-MAP : " +
		"/2.xml\r\nSitemap:\nUser-agent: *\nsitemap:https://a.example/3.xml"))
	want := []string{"https://a.example/1.xml", "/2.xml", "https://a.example/3.xml"}
	if got := f.Sitemaps(); !slices.Equal(got, want) {
		t.Errorf("sitemaps %q, want %q", got, want)
	}
}

func TestProductToken(t *testing.T) {
	for in, want := range map[string]string{
		"Mapwright/1.0 (+https://x.example)": "Mapwright", "a_b-c d": "a_b-c", "": "", "1bot/2": "1bot",
		"crawler1 x": "crawler1", "(x)": "",
	} {
		if got := ProductToken(in); got != want {
			t.Errorf("ProductToken(%q) = %q, want %q", in, got, want)
		}
	}
}

// Rules keep their own lines and nothing of the other groups or the comments.
func TestRulesHoldTheirLinesOnly(t *testing.T) {
	other := "User-agent: other\nDisallow: /secret" + strings.Repeat("\nDisallow: /other", 10_000)
	r := Parse([]byte("User-agent: Bot\nCrawl-delay: 2\nDisallow: /a # no\n\n\nAllow: /*b%2a$\n" + other)).Agent("bot")
	// The copies of the lines lie side by side, which the lines of the file do not.
	plain, wild := r.plain[0].text, r.wild[0].text
	if plain != "Disallow: /a" || wild != "Allow: /*b%2a$" || r.Size() > 1000 ||
		unsafe.StringData(wild) != (*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(plain)), len(plain))) {
		t.Errorf("%d bytes with %q and %q", r.Size(), plain, wild)
	}
	if d, ok := r.CrawlDelay(); d != 2*time.Second || !ok || r.Group() != "Bot" {
		t.Errorf("group %q with a Crawl-delay of %v, %v", r.Group(), d, ok)
	}
	if got, want := r.Match("/a"), (Match{Rule: "Disallow: /a", Line: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	r := Parse([]byte(typicalFile())).Agent("mapwright")
	for _, path := range []string{"/", "/products/1/reviews?page=2", "/%E3%83%84/x", "/search?q=a"} {
		if n := testing.AllocsPerRun(100, func() { r.Match(path) }); n != 0 {
			t.Errorf("Match(%q) allocates %v times", path, n)
		}
	}
}

// TestTooCostly asks for a decision that would take too long, and for one beside
// it that does not.
func TestTooCostly(t *testing.T) {
	r := Parse([]byte(hostileFiles()["disorder"])).Agent("a")
	want := Match{Rule: TooCostly}
	if got := r.Match("/" + strings.Repeat("a", 1000) + "b" + strings.Repeat("a", 1000)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.Match("/plain/page.html"); !got.Allowed || got.Rule != "" {
		t.Errorf("%+v, want it allowed", got)
	}
	if got, quick := r.MatchQuickly("/plain/page.html"); !quick || !got.Allowed {
		t.Errorf("%+v, %v, want it allowed at once", got, quick)
	}
	few := Parse([]byte("User-agent: *\n" + strings.Repeat("Disallow: /*a*ac\n", 200))).Agent("a")
	for path, isQuick := range map[string]bool{
		"/ac" + strings.Repeat("a", 2000): false, "/ac": true, "/short/aac": true,
	} {
		got, quick := few.MatchQuickly(path)
		whole := few.Match(path)
		if quick != isQuick || quick && got != whole || whole.Allowed == (path == "/short/aac") {
			t.Errorf("%.20s: %+v, quick %v; %+v", path, got, quick, whole)
		}
	}
}
