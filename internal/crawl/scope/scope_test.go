package scope

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
)

func TestScope(t *testing.T) {
	for _, c := range []struct {
		kind, start, url string
		want             Reason
	}{
		{"domain", "https://www.example.co.uk/a/", "http://shop.example.co.uk:8080/x", InScope},
		{"domain", "https://www.example.co.uk/a/", "https://other.co.uk/", OutOfScope},
		{"domain", "http://127.0.0.1:99/", "http://127.0.0.1:98/x", InScope},
		{"host", "https://www.example.com/", "http://www.example.com/x", InScope},
		{"host", "https://www.example.com/", "https://example.com/x", OutOfScope},
		{"subdomains", "https://example.com/", "https://a.b.example.com/x", InScope},
		{"subdomains", "https://b.example.com/", "https://example.com/x", OutOfScope},
		{"subdomains", "https://b.example.com/", "https://ab.example.com/x", OutOfScope},
		{"prefix", "https://example.com/docs/index.html", "https://example.com/docs/x/y?z", InScope},
		{"prefix", "https://example.com/docs/", "https://example.com/docsx/", OutOfScope},
		{"prefix", "https://example.com/docs/", "http://example.com/docs/", OutOfScope},
		{"any", "https://example.com/", "https://else.org/", InScope},
		{"any", "https://example.com/", "https://" + strings.Repeat("a", 256) + "/", TooLong},
		{"host", "https://example.com/", "https://example.com/" + strings.Repeat("a", 1<<15), TooLong},
	} {
		s := config.Defaults(config.Polite)
		s.Scope = c.kind
		scope, err := New(s, []weburl.URL{parseURL(t, c.start)})
		if err != nil {
			t.Fatal(err)
		}
		if got := scope.Check(parseURL(t, c.url)); got != c.want {
			t.Errorf("%s scope of %s: %s is %q, want %q", c.kind, c.start, c.url, got, c.want)
		}
		for _, at := range []string{c.start, c.url, "https://example.com/docs/", "https://else.org/"} {
			if page := scope.OfPage(parseURL(t, at)); page.Check(parseURL(t, c.url)) != c.want {
				t.Errorf("%s scope of %s: %s, found on %s, is not %q", c.kind, c.start, c.url, at, c.want)
			}
		}
	}
}

// A crawl may start at very many hosts, and each may redirect to another.
func TestScopeOfManyStarts(t *testing.T) {
	const n = 30_000
	for _, kind := range []string{"host", "domain", "subdomains", "prefix"} {
		s := config.Defaults(config.Polite)
		s.Scope = kind
		starts := make([]weburl.URL, n)
		for i := range starts {
			starts[i] = parseURL(t, fmt.Sprintf("http://h%d.test/a/", i))
		}
		scope, err := New(s, starts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			target := parseURL(t, fmt.Sprintf("https://t%d.test/b/", i))
			scope.Extend(target)
			if !scope.Contains(target) || !scope.Contains(starts[i]) {
				t.Fatalf("%s: %s or %s is not in it", kind, starts[i], target)
			}
		}
		if scope.Contains(parseURL(t, "http://else.test/a/")) {
			t.Errorf("%s: everything is in it", kind)
		}
	}
}

func TestScopeFilters(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.Include = []string{`/docs/`, `/blog/`}
	s.Exclude = []string{`\?print=`}
	s.SkipExtensions = []string{".PDF", "zip"}
	scope, err := New(s, []weburl.URL{parseURL(t, "https://example.com/")})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]Reason{
		"https://example.com/docs/a":         InScope,
		"https://example.com/shop/a":         NotIncluded,
		"https://example.com/blog/a?print=1": Excluded,
		"https://example.com/docs/a.pdf":     ByExtension,
		"https://example.com/docs/a.ZIP?x=1": ByExtension,
	} {
		if got := scope.Check(parseURL(t, url)); got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
}

func TestScopeExtends(t *testing.T) {
	s := config.Defaults(config.Polite)
	scope, err := New(s, []weburl.URL{parseURL(t, "https://example.com/")})
	if err != nil {
		t.Fatal(err)
	}
	target := parseURL(t, "https://www.example.org/")
	if scope.Check(target) != OutOfScope {
		t.Error("in scope too early")
	}
	scope.Extend(target)
	if scope.Check(target) != InScope || scope.Check(parseURL(t, "https://example.com/x")) != InScope {
		t.Error("not extended")
	}
}

func parseURL(t testing.TB, text string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

// With only-hosts, the hosts that it names and those of the start URLs may be asked, as far as they are in scope.
func TestOnlyHosts(t *testing.T) {
	s := config.Defaults(config.Polite)
	s.Scope, s.OnlyHosts = "any", []string{"*.shop.test"}
	scope, err := New(s, []weburl.URL{parseURL(t, "https://www.own.test/a/")})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]Reason{"http://www.own.test/b": InScope, "https://de.shop.test/": InScope,
		"https://shop.test/": OutOfScope, "https://own.test/": OutOfScope} {
		if got := scope.Check(parseURL(t, url)); got != want {
			t.Errorf("%s is %q, want %q", url, got, want)
		}
	}
}
