package weburl

import "testing"

func TestToASCII(t *testing.T) {
	for _, c := range []struct{ in, want string }{ // want is empty for a refusal
		{"example.com", "example.com"},
		{"EXAMPLE.com", "example.com"},
		{"XN--A", "xn--a"}, // ASCII is not judged
		{"xn--", "xn--"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER。example", "xn--bcher-kva.example"},
		{"faß.de", "xn--fa-hia.de"},
		{"ẞ.de", "xn--zca.de"},
		{"Ⴀ.ge", "xn--rkj.ge"},
		{"a\u00adb", "ab"},
		{"\u00ad", ""},
		{"\u00ad.ü", ".xn--tda"},
		{"a\u206ab\u3164", "ab"},
		{"ü.xn--", ""},
		{"ü.xn--\u00ad", ""},
		{"ü.ｘｎ－－", ""},
		{"ü.xn--a", ""},
		{"ü.xn--tda", "xn--tda.xn--tda"},
		{"ü.xn--tda-", ""},
		{"xn--té-sla", ""},
		{"ü.xn--xn---epa", ""}, // decodes to xn--é
		{"é\u200d", ""},
		{"אa", ""},
		{"\ufffd", ""},
		{"ü\xff", ""},
	} {
		got, err := toASCII(c.in)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("toASCII(%+q) = %q, %v, want %q", c.in, got, err, c.want)
		}
	}
}
