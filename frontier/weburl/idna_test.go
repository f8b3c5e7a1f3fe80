package weburl

import (
	"strings"
	"testing"
)

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

// Names that are too long for the DNS are refused before they are converted, which would take long.
func TestLongNames(t *testing.T) {
	var letters strings.Builder // no two of them are the same
	for r := rune(0x4e00); r < 0x4e00+2700; r++ {
		letters.WriteRune(r)
	}
	distinct := letters.String()
	label := func(n int) string { return distinct[:3*n] }
	for name, c := range map[string]struct {
		in   string
		good bool
	}{
		"a label of the DNS":       {strings.Repeat("ü", 56) + ".test", true},
		"one that it has not":      {label(81) + ".test", false},
		"a page of letters":        {distinct, false},
		"the same with escapes":    {strings.Repeat("%E4%B8%80", 81), false},
		"many labels":              {strings.Repeat(label(20)+".", 11) + "test", true},
		"too many":                 {strings.Repeat(label(20)+".", 20) + "test", false},
		"what becomes longer":      {strings.Repeat("㌀", 21) + ".test", false}, // アパート
		"many of them":             {strings.Repeat("㌀.", 76) + "test", false},
		"a long name of ASCII":     {strings.Repeat("a", 9000) + ".test", true},
		"ignored characters":       {"a" + strings.Repeat("\u00ad", 70) + ".test", true},
		"too many of them":         {strings.Repeat("a\u00ad.", 150) + "test", false},
		"after a full stop of CJK": {"a。" + label(81), false},
	} {
		if _, err := Parse("http://" + c.in + "/"); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
