package weburl

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTrim(t *testing.T) {
	const site = "https://example.com"
	ignore := []string{"utm_*", "fbclid", "a[b]", "ä"}
	for _, c := range []struct {
		only      string
		uri, want string
	}{
		{"", "/a", "/a"},
		{"", "/a?", "/a?"},
		{"", "/a?x=1&y", "/a?x=1&y"},
		{"", "/a?utm_source=x", "/a"},
		{"", "/a?utm_source", "/a"},
		{"", "/a?utm_=&fbclid=1&utm_b=2", "/a"},
		{"", "/a?x=1&utm_source=s&y=2", "/a?x=1&y=2"},
		{"", "/a?utm_source=s&x=1", "/a?x=1"},
		{"", "/a?x=1&utm_source=s", "/a?x=1"},
		{"", "/a?z=1&fbclid=2&x=3&fbclid=4&z=5", "/a?z=1&x=3&z=5"},
		{"", "/a?&x=1&&fbclid=s", "/a?&x=1&"},
		{"", "/a?&fbclid=s&", "/a"},
		{"", "/a?&&", "/a?&&"},
		{"", "/a?Fbclid=1&xfbclid=2&fbclidx=3&UTM_source=4", "/a?Fbclid=1&xfbclid=2&fbclidx=3&UTM_source=4"},
		{"", "/a?u=http://b/?fbclid=1", "/a?u=http://b/?fbclid=1"},
		{"", "/a?x=fbclid", "/a?x=fbclid"},
		{"", "/a?x=1;utm_source=s;y=2&fbclid=3", "/a?x=1;y=2"},
		{"", "/a?utm_source=a;b&x=1;fbclid", "/a?x=1;fbclid"},
		{"", "/a?utm%5Fsource=s&a%5Bb%5D=1&a[b]=2&%C3%A4=3&q=4", "/a?q=4"},
		{"", "/a?=1&fbclid=2", "/a?=1"},
		{"id,pa*", "/a?id=1&page=2&x=3&pa=4&utm_a=5&path", "/a?id=1&page=2&pa=4&path"},
		{"id", "/a?x=1&y", "/a"},
		{"id", "/a?id=a;b", "/a?id=a;b"},
		{"*", "/a?x=1&utm_a=2", "/a?x=1"},
	} {
		var only []string
		if c.only != "" {
			only = strings.Split(c.only, ",")
		}
		p, err := NewParams(ignore, only)
		if err != nil {
			t.Fatal(err)
		}
		u, err := Parse(site + c.uri)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Trim(u); got.String() != site+c.want {
			t.Errorf("%s becomes %s, want %s", c.uri, got, c.want)
		}
	}
	if p, err := NewParams(nil, nil); p != nil || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
	for _, bad := range []string{"", "a*b", "a=b", "a&b", "a%20b", "a b", strings.Repeat("a", maxParam+1)} {
		if _, err := NewParams(nil, []string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Both forms give the same result, which is canonical and stays as it is.
func TestTrimProperties(t *testing.T) {
	tokens := []string{"a", "utm_x", "fbclid", "id", "=", "&", ";", "?", "%3D", "%26", "+", "%5F", "/"}
	rapid.Check(t, func(t *rapid.T) {
		query := strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 0, 12).Draw(t, "tokens"), "")
		only := rapid.SampledFrom([][]string{nil, {"id", "a*"}}).Draw(t, "only")
		p, err := NewParams([]string{"utm_*", "fbclid"}, only)
		if err != nil {
			t.Fatal(err)
		}
		base := MustCanonical("http://example.com/p")
		got := []byte("before")
		got, outline, err := base.AppendResolve(got, []byte("/a?"+query))
		if err != nil {
			t.Fatal(err)
		}
		raw := MustCanonical(string(got[len("before"):]))
		want := p.Trim(raw)
		text := string(p.TrimBytes(got[len("before"):], outline))
		if u := outline.URL(text); u != want {
			t.Fatalf("%s becomes %q in place and %q alone", raw, u, want)
		}
		if again := p.Trim(want); again != want {
			t.Fatalf("%s becomes %s and then %s", raw, want, again)
		}
		if parsed, err := Parse(want.String()); err != nil || parsed != want {
			t.Fatalf("%s becomes %+v, which reads as %+v, %v", raw, want, parsed, err)
		}
	})
}

// Names are found as if each prefix were tried.
func TestPrefixesOfParams(t *testing.T) {
	name := rapid.StringMatching("[abc]{0,4}")
	rapid.Check(t, func(t *rapid.T) {
		prefixes := rapid.SliceOfN(name, 0, 8).Draw(t, "prefixes")
		n := names{prefixes: slices.Clone(prefixes)}
		n.sort()
		got := name.Draw(t, "name")
		want := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(got, p) })
		if n.has(got) != want {
			t.Fatalf("%q begins with one of %q: %v, want %v", got, prefixes, !want, want)
		}
	})
}
