package config

import "testing"

func TestHostSet(t *testing.T) {
	set, err := NewHostSet([]string{"Example.com", "*.shop.example", "münchen.example", "127.0.0.1",
		"dotted.example.", "*.below.example."})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"example.com": true, "www.example.com": false, "a.shop.example": true, "a.b.shop.example": true,
		"shop.example": false, "ashop.example": false,
		"xn--mnchen-3ya.example": true, "127.0.0.1": true, "": false,
		"example.com.": true, "a.shop.example.": true, "shop.example.": false, "dotted.example": true,
		"dotted.example.": true, "a.below.example": true, "a.b.below.example.": true, "below.example.": false,
		".": false, "shop.example..": false,
	} {
		if set.Has(host) != want {
			t.Errorf("%q: %v, want %v", host, !want, want)
		}
	}
	for pattern, want := range map[string]bool{
		"example.com": true, "*.example.com": false, "*.shop.example": true, "*.a.shop.example": true,
		"shop.example": false, "*.example": false, "example.com.": true, "*.a.shop.example.": true,
		"*.dotted.example.": false,
	} {
		other, err := NewHostSet([]string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		if set.Covers(other) != want {
			t.Errorf("covers %q: %v, want %v", pattern, !want, want)
		}
	}
	for _, bad := range []string{"", "*", "*.", "a*.example", "example.com:80", "http://example.com", "example.com/x",
		"user@example.com", "*.*.example", "a b", ".", "*..", "a.."} {
		if _, err := NewHostSet([]string{bad}); err == nil {
			t.Errorf("%q is taken for a host", bad)
		}
	}
}
