package urlnorm

import (
	"testing"

	"golang.org/x/net/publicsuffix"
)

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

// A newer list may move a domain to another partition, and with it every key of
// its hosts in crawls that exist. Whoever brings it must say so to their users,
// then change this line.
func TestPublicSuffixListIsKnown(t *testing.T) {
	const want = "publicsuffix.org's public_suffix_list.dat, git revision d6c92f1bbb7433e5db7b8405c25d4035fb8ff376 (2026-02-06T07:36:33Z)"
	if got := publicsuffix.List.String(); got != want {
		t.Errorf("the public suffix list is %q, want %q", got, want)
	}
}
