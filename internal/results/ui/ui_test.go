package ui

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

// colours reads the variables of the light and of the dark part of the style sheet.
func colours(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	first, second, ok := strings.Cut(StyleSheet(), "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("the style sheet has no dark part")
	}
	read := func(text string) map[string]string {
		found := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(text, -1) {
			found[m[1]] = m[2]
		}
		return found
	}
	return read(first), read(second)
}

// luminance is the relative luminance of WCAG 2.
func luminance(hex string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Text has the contrast of WCAG's level AA on each background, and marks of charts that of graphics.
func TestContrast(t *testing.T) {
	light, dark := colours(t)
	if len(light) != len(dark) {
		t.Errorf("the light part has %d colours, the dark %d", len(light), len(dark))
	}
	for name, c := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, ground := range []string{"bg", "panel"} {
			for _, text := range []string{"text", "soft", "link", "good", "info", "warn", "bad", "muted"} {
				if got := contrast(c[text], c[ground]); got < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, text, ground, got)
				}
			}
			for _, mark := range []string{"first", "second", "third", "focus"} {
				if got := contrast(c[mark], c[ground]); got < 3 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, mark, ground, got)
				}
			}
		}
	}
}

func TestTable(t *testing.T) {
	table := &Table{Caption: "Pages", Columns: []Column{{"URL", "url"}, {"Count", "num"}, {"State", ""}},
		More: "sitemap.jsonl has all"}
	hostile := "https://a.test/<script>alert(1)</script>\u202E" + strings.Repeat("x", 10_000)
	table.Add(Link("https://a.test/?a=1&b=2"), Number(1234567), Badge("ok", "good", 1))
	table.Add(Link("javascript:alert(1)"), Number(2), Badge(`"><script>alert(1)</script>`, "bad", 2))
	table.Add(Link(hostile), Bytes(2048), Time(1500))
	table.Add(Links([]string{"https://a.test/1", "javascript:alert(1)", "https://a.test/3", "https://a.test/4"},
		[]string{"one", "<b>two</b>"}, 5), Number(1), Word("b"))
	for range 200 {
		table.Add(Link("https://a.test/"), Number(0), Word("a"))
	}
	set, err := Parse(fstest.MapFS{"page.tmpl": {Data: []byte(`{{define "page"}}{{template "table" .}}{{end}}`)}},
		"*.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	if err := set.ExecuteTemplate(out, "page", table); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	rows, links := 0, 0
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "script":
			t.Error("a text became a script")
		case n.Data == "tr":
			rows++
		case n.Data == "a":
			links++
			if !strings.HasPrefix(n.Attr[0].Val, "https://a.test/") {
				t.Errorf("a link leads to %q", n.Attr[0].Val)
			}
		}
	}
	if rows != 101 || links != 99 { // with the head; three addresses are not links
		t.Errorf("the table has %d rows and %d links", rows, links)
	}
	for _, want := range []string{"1,234,567", "2.0 KiB", "1.5 s", "and 6 more", "“<bdi>one</bdi>”",
		"&lt;b&gt;two&lt;/b&gt;", "104 more rows are not shown here: sitemap.jsonl has all."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table does not contain %q", want)
		}
	}
}

// A table of very long texts stays small.
func TestTableBytes(t *testing.T) {
	table := &Table{}
	for i := range 1000 {
		table.Add(Link(fmt.Sprint("https://a.test/", i, strings.Repeat("x", 2000))), Text(strings.Repeat("y", 10_000)))
	}
	if n := int64(len(table.Rows)) + table.Cut; n != 1000 || len(table.Rows) > 60 || len(table.Rows) < 10 {
		t.Errorf("%d rows are shown and %d cut", len(table.Rows), table.Cut)
	}
}

func TestSource(t *testing.T) {
	if got := Source("alert(1)"); got != "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='" {
		t.Errorf("the source of a script is %s", got)
	}
}

func TestNumbers(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 ms", 0.565: "565 ms", 1.96: "2.0 s", 13.74: "13.7 s",
		59.7: "1m0s", 86.4: "1m26s", 3600: "1h0m0s"} {
		if got := Seconds(seconds); got != want {
			t.Errorf("%v seconds are %q, want %q", seconds, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.0", 1.96: "2.0", 1822.94: "1,822.9"} {
		if got := Decimal(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
