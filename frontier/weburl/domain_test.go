package weburl

import "testing"

func TestRegistrableDomain(t *testing.T) {
	for _, c := range []struct{ host, want string }{
		{"", ""},
		{"example.com", "example.com"},
		{"www.example.com", "example.com"},
		{"www.example.com.", "example.com"},
		{"a.b.example.co.uk", "example.co.uk"},
		{"somebody.github.io", "somebody.github.io"},
		{"www.somebody.github.io", "somebody.github.io"},
		{"github.io", "github.io"},
		{"co.uk", "co.uk"},
		{"com", "com"},
		{"localhost", "localhost"},
		{"localhost.", "localhost"},
		{"db.internal", "db.internal"},
		{"a.db.internal", "db.internal"},
		{"www.city.kawasaki.jp", "city.kawasaki.jp"},
		{"a.b.kawasaki.jp", "a.b.kawasaki.jp"},
		{"www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"},
		{"127.0.0.1", "127.0.0.1"},
		{"[::1]", "[::1]"},
		{"host1", "host1"},
		{"www.example1", "www.example1"},
		{".", "."},
		{"a..com", "a..com"},
		{".example.com", ".example.com"},
	} {
		if got := RegistrableDomain(c.host); got != c.want {
			t.Errorf("RegistrableDomain(%q) = %q, want %q", c.host, got, c.want)
		}
	}
}
