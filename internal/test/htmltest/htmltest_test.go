package htmltest

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	page := func(body string) string {
		return "<!doctype html><html><head><title>x</title></head><body>" + body + "</body></html>"
	}
	for body, want := range map[string]string{
		"<p>one<br>two</p><ul><li>three</li></ul>": "",
		"<p>one":                               "</body> closes",
		"<b><i>one</b></i>":                    "</b> closes",
		`<p id="a" id="b">one</p>`:             "2 attributes, of which 1 differ",
		"<p>one<ul><li>two</li></ul></p>":      "more of p",
		"<table><tr><td>one</td></tr></table>": "more of tbody",
	} {
		err := Check(page(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
