package weburl

import (
	"errors"
	"strings"
	"testing"
)

func TestCanonicalForm(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"bare host", "http://example.com", "http://example.com/"},
		{"scheme and host in capitals", "HTTPS://Example.COM/A", "https://example.com/A"},
		{"default port", "http://example.com:80/", "http://example.com/"},
		{"other scheme's port", "http://example.com:443/", "http://example.com:443/"},
		{"empty port", "http://example.com:/", "http://example.com/"},
		{"user information", "http://user:pw@example.com/", "http://example.com/"},
		{"fragment", "http://example.com/a?b#c", "http://example.com/a?b"},
		{"empty query stays", "http://example.com/a?", "http://example.com/a?"},
		{"empty query before a fragment stays", "http://example.com/a?#c", "http://example.com/a?"},
		{"trailing slash stays", "http://example.com/a/", "http://example.com/a/"},
		{"empty segments stay", "http://example.com//a//", "http://example.com//a//"},
		{"trailing dot of the host stays", "http://example.com./", "http://example.com./"},
		{"case and order stay", "http://example.com/Ab?z=1&A=2&a=2", "http://example.com/Ab?z=1&A=2&a=2"},
		{"hex of escapes", "http://example.com/%c3%a9?%c3%a9", "http://example.com/%C3%A9?%C3%A9"},
		{"unreserved escapes", "http://example.com/%41%7a%30%2d%2E%5f%7E?%41%7a%30%2d%2E%5f%7E",
			"http://example.com/Az0-._~?Az0-._~"},
		{"reserved escapes stay", "http://example.com/%2f%3B%40%3a%26?%26%3D%2B%23",
			"http://example.com/%2F%3B%40%3A%26?%26%3D%2B%23"},
		{"reserved characters stay", "http://example.com/;@:&=+$,!*()?;@:&=+$,!*()/?",
			"http://example.com/;@:&=+$,!*()?;@:&=+$,!*()/?"},
		{"plus is no space", "http://example.com/a+b?a+b", "http://example.com/a+b?a+b"},
		{"space", "http://example.com/a b?c d", "http://example.com/a%20b?c%20d"},
		{"not ASCII", "http://example.com/é?é", "http://example.com/%C3%A9?%C3%A9"},
		{"not UTF-8", "http://example.com/\xe9?\xe9", "http://example.com/%EF%BF%BD?%EF%BF%BD"},
		{"quote is escaped in queries only", "http://example.com/'?'", "http://example.com/'?%27"},
		{"dot segments", "http://example.com/a/./b/../c/.", "http://example.com/a/c/"},
		{"escaped dot segments", "http://example.com/a/%2e/b/%2E%2e/c/.%2e", "http://example.com/a/"},
		{"dots in the query", "http://example.com/?/../a", "http://example.com/?/../a"},
		{"three dots", "http://example.com/.../%2e..", "http://example.com/.../..."},
		{"stray percent", "http://example.com/%?%", "http://example.com/%?%"},
		{"unescaping makes no escape", "http://example.com/%%32e", "http://example.com/%%32e"},
		{"nor with one digit of it", "http://example.com/%2%65", "http://example.com/%2%65"},
		{"an escape kept in place ends it", "http://example.com/%%34%31", "http://example.com/%%341"},
		{"other letters after a stray percent", "http://example.com/%%7a%4%7A", "http://example.com/%z%4z"},
		{"escaped percent", "http://example.com/%2541", "http://example.com/%2541"},
		{"backslashes", `http:\\example.com\a\b?\`, `http://example.com/a/b?\`},
		{"tabs, newlines, spaces around", " \thttp://exa\nmple.com/a\r\nb ", "http://example.com/ab"},
		{"IPv4 in short", "http://0x7f.1/", "http://127.0.0.1/"},
		{"IPv4 with a dot", "http://127.0.0.1./", "http://127.0.0.1/"},
		{"IPv6", "http://[1:0:0:0:0:0:0:A]:8080/", "http://[1::a]:8080/"},
		{"IPv6 with IPv4", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"},
		{"international host", "http://Bücher.example/", "http://xn--bcher-kva.example/"},
		{"escaped host", "http://ex%61mple.com/", "http://example.com/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := Parse(c.in)
			if err != nil || u.String() != c.want {
				t.Fatalf("Parse(%q) = %q, %v, want %q", c.in, u, err, c.want)
			}
			if v, err := Parse(u.String()); err != nil || v != u {
				t.Errorf("Parse(%q) = %q, %v, want itself", u, v, err)
			}
			if v, ok := FromCanonical(u.String()); !ok || v != u {
				t.Errorf("FromCanonical(%q) = %+v, %v, want %+v", u, v, ok, u)
			}
			checkForm(t, u)
		})
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct{ in, scheme, host, port, origin, path, query, requestURI string }{
		{"http://example.com/", "http", "example.com", "", "http://example.com", "/", "", "/"},
		{"https://example.com:8443/a/b?c=d?e", "https", "example.com", "8443", "https://example.com:8443", "/a/b",
			"c=d?e", "/a/b?c=d?e"},
		{"http://[::1]/?", "http", "[::1]", "", "http://[::1]", "/", "", "/?"},
		{"http://[::1]:81/", "http", "[::1]", "81", "http://[::1]:81", "/", "", "/"},
		{"http://127.0.0.1:81/", "http", "127.0.0.1", "81", "http://127.0.0.1:81", "/", "", "/"},
		{"https://a/b:1", "https", "a", "", "https://a", "/b:1", "", "/b:1"},
	} {
		u, err := Parse(c.in)
		if err != nil || u.IsZero() {
			t.Errorf("Parse(%q) = %q, %v", c.in, u, err)
			continue
		}
		for _, part := range []struct{ name, got, want string }{
			{"Scheme", u.Scheme(), c.scheme}, {"Host", u.Host(), c.host}, {"Port", u.Port(), c.port},
			{"Origin", u.Origin(), c.origin},
			{"Path", u.Path(), c.path}, {"Query", u.Query(), c.query}, {"RequestURI", u.RequestURI(), c.requestURI},
		} {
			if part.got != part.want {
				t.Errorf("%q: %s is %q, want %q", u, part.name, part.got, part.want)
			}
		}
	}
}

func TestZeroURL(t *testing.T) {
	var u URL
	if !u.IsZero() || u.String()+u.Scheme()+u.Host()+u.Port()+u.Origin()+u.Path()+u.Query()+u.RequestURI() != "" {
		t.Error("the zero URL has parts")
	}
	if _, err := u.Resolve("/a"); err != ErrRelative {
		t.Errorf("Resolve = %v, want %v", err, ErrRelative)
	}
}

func TestErrors(t *testing.T) {
	base, err := Parse("https://example.com/a/b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base URL
		ref  string
		want error
	}{
		{URL{}, "", ErrRelative},
		{URL{}, "/a", ErrRelative},
		{URL{}, "example.com", ErrRelative},
		{URL{}, "//example.com/", ErrRelative},
		{URL{}, "1http://example.com/", ErrRelative},
		{URL{}, "ftp://example.com/", ErrScheme},
		{base, "mailto:a@example.com", ErrScheme},
		{base, "JavaScript:void(0)", ErrScheme},
		{base, "java\nscript:void(0)", ErrScheme},
		{base, "ws://example.com/", ErrScheme},
		{base, "file:///etc/passwd", ErrScheme},
		{base, "http://", ErrHost},
		{base, "http:///", ErrHost},
		{base, "http://user@/", ErrHost},
		{base, "http://:80/", ErrHost},
		{base, "http://a b/", ErrHost},
		{base, "http://a%2fb/", ErrHost},
		{base, "http://\xff/", ErrHost},
		{base, "http://1.2.3.4.5/", ErrHost},
		{base, "http://256.1.1.1/", ErrHost},
		{base, "http://4294967296/", ErrHost},
		{base, "http://1.08/", ErrHost},
		{base, "http://[::1/", ErrHost},
		{base, "http://[1.2.3.4]/", ErrHost},
		{base, "http://[fe80::1%25eth0]/", ErrHost},
		{base, "http://example.com:65536/", ErrPort},
		{base, "http://example.com:-1/", ErrPort},
		{base, "http://example.com:8a/", ErrPort},
		{base, strings.Repeat("a", maxLen), ErrLength},
	} {
		u, err := c.base.Resolve(c.ref)
		if !errors.Is(err, c.want) || !u.IsZero() {
			t.Errorf("Resolve(%q, %.40q) = %.40q, %v, want %v", c.base, c.ref, u, err, c.want)
		}
		out, _, err := c.base.AppendResolve([]byte("x"), []byte(c.ref))
		if !errors.Is(err, c.want) || string(out) != "x" {
			t.Errorf("AppendResolve(%q, %.40q) = %.40q, %v, want %v", c.base, c.ref, out, err, c.want)
		}
	}
}

func TestFromCanonicalRefuses(t *testing.T) {
	for _, s := range []string{
		"", "http://", "http:///", "http://a", "http://:80/", "ftp://a/", "HTTP://a/", "//a/", "http:/a/", "http://a/#",
		"http://a/?#b",
	} {
		if u, ok := FromCanonical(s); ok {
			t.Errorf("FromCanonical(%q) = %+v, want a refusal", s, u)
		}
	}
}

func TestResolve(t *testing.T) {
	const base = "http://a.example/b/c/d;p?q"
	for ref, want := range map[string]string{
		"g": "/b/c/g", "./g": "/b/c/g", "g/": "/b/c/g/", "/g": "/g", "?y": "/b/c/d;p?y", "g?y": "/b/c/g?y",
		"#s": "/b/c/d;p?q", "g#s": "/b/c/g",
		";x": "/b/c/;x", "g;x": "/b/c/g;x", "": "/b/c/d;p?q", ".": "/b/c/", "./": "/b/c/", "..": "/b/", "../": "/b/",
		"../g":  "/b/g",
		"../..": "/", "../../g": "/g", "../../../g": "/g", "/./g": "/g", "/../g": "/g", "g.": "/b/c/g.",
		".g": "/b/c/.g", "g..": "/b/c/g..",
		"..g": "/b/c/..g", "./../g": "/b/g", "./g/.": "/b/c/g/", "g/./h": "/b/c/g/h", "g/../h": "/b/c/h",
		"g?y/../x": "/b/c/g?y/../x",
		"..?y":     "/b/?y", ".#s": "/b/c/", "?": "/b/c/d;p?", "http:g": "/b/c/g", "\\g": "/g", "./a:b": "/b/c/a:b",
		"/a:b": "/a:b", "1:b": "/b/c/1:b",
	} {
		u, err := mustParse(t, base).Resolve(ref)
		if err != nil || u.String() != "http://a.example"+want {
			t.Errorf("Resolve(%q) = %q, %v, want http://a.example%s", ref, u, err, want)
		}
	}
}

func mustParse(t *testing.T, raw string) URL {
	t.Helper()
	u, err := Parse(raw)
	if err != nil {
		t.Fatalf("Parse(%q) = %v", raw, err)
	}
	return u
}

// The plain cases are on the path of every link of every page.
func TestAllocations(t *testing.T) {
	base := mustParse(t, "https://www.example.com/products/shoes/index.html?ref=home")
	buf := make([]byte, 0, 512)
	for _, ref := range []string{
		"/wiki/Go_(programming_language)", "article-12345.html", "../a/b.html", "?page=2", "#top", "", ".",
		"https://www.example.com/products/shoes?color=red", "http://other.example:8080/a", "//cdn.example.net/x",
		"/wiki/%D0%9F", "https://other.example",
		"mailto:somebody@example.com", "javascript:void(0)",
	} {
		if n := testing.AllocsPerRun(100, func() { _, _ = base.Resolve(ref) }); n > 1 {
			t.Errorf("Resolve(%q) allocates %v times", ref, n)
		}
		raw := []byte(ref)
		if n := testing.AllocsPerRun(100, func() { _, _, _ = base.AppendResolve(buf, raw) }); n > 0 {
			t.Errorf("AppendResolve(%q) allocates %v times", ref, n)
		}
	}
	h := NewHasher(1)
	if n := testing.AllocsPerRun(100, func() { h.Key(base) }); n > 0 {
		t.Errorf("Key allocates %v times", n)
	}
}

// A link outlives its page, so that it must not hold the page's text.
func TestResolveCopies(t *testing.T) {
	page := []byte("https://example.com/a")
	u, err := Parse(string(page))
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := URL{}.AppendResolve(nil, page)
	if err != nil {
		t.Fatal(err)
	}
	copy(page, "XXXXXXXXXXXXXXXXXXXXXXX")
	if string(out) != u.String() {
		t.Errorf("AppendResolve result changed to %q with its input", out)
	}
}

func TestCutUserinfo(t *testing.T) {
	for text, want := range map[string]string{
		"http://user:pass@a.test/x":            "http://a.test/x",
		"https://user@a.test":                  "https://a.test",
		"HTTP:\\\\u:p@a.test\\x?y=@":           "HTTP://a.test\\x?y=@",
		"ht\ttp:/\n/u:p\r@a.test/":             "http://a.test/",
		" \x01http://u:p@q@a.test:8/":          "http://a.test:8/",
		"https:////:@a.test/":                  "https://a.test/",
		"http://a.test/@name?u=http://b:c@d/":  "",
		"http://a.test?x@y":                    "",
		"http://a.test#@":                      "",
		"a.test/x:y@z":                         "",
		"a.test/?u=http://user:pass@other.tst": "",
		"":                                     "",
	} {
		got, found := CutUserinfo(text)
		if found != (want != "") || found && got != want || !found && got != text {
			t.Errorf("%q: %q, %v; want %q", text, got, found, want)
		}
		before, err := Parse(text)
		if err != nil {
			continue
		}
		if after, err := Parse(got); err != nil || after != before {
			t.Errorf("%q: %s, %v; want %s", text, after, err, before)
		}
	}
}
