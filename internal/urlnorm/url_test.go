package urlnorm

import "testing"

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"http://example.com", "http://example.com/"},
		{"HTTPS://user:pw@Example.COM:443/a/../b/%7euser?x=%2f#frag", "https://example.com/b/~user?x=%2F"},
	} {
		u, err := Parse(c.in)
		if err != nil || u.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v, want %q", c.in, u, err, c.want)
		}
		if v, ok := FromCanonical(u.String()); !ok || v != u {
			t.Errorf("FromCanonical(%q) = %+v, %v, want %+v", u, v, ok, u)
		}
	}
}
