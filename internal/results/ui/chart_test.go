package ui

import (
	"flag"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "write the golden files again")

// hostileLabels are labels that must be shown as text.
var hostileLabels = []string{`</text><script>alert(1)</script>`, `" onload="alert(1)`, "a\u202Egnp.exe",
	strings.Repeat("x", 10_000), "bad \xff byte", "a & b"}

func hostileRows() []Row {
	var rows []Row
	for i, label := range hostileLabels {
		rows = append(rows, Row{label, []float64{float64(i * 100), float64(i * 250)}})
	}
	return rows
}

func charts() map[string]template.HTML {
	two := []Series{{"p50", First}, {"p95", Second}}
	at := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	lines := &Lines{Caption: Caption{ID: "l", Title: "Found and crawled", Desc: "Pages found and crawled over time."},
		Series: []Series{{"Found", First}, {"Crawled", Second}}}
	for i := range 100 {
		lines.Points = append(lines.Points, Point{at.Add(time.Duration(i) * time.Minute),
			[]float64{float64(i * 20), float64(i * 15)}})
	}
	one := &Lines{Caption: Caption{ID: "one", Title: "One moment", Desc: "A crawl of one moment."},
		Series: lines.Series, Points: []Point{{at, []float64{3, 2}}}}
	hist := &Histogram{Caption: Caption{ID: "h", Title: "Click depth", Desc: "Pages by clicks."}, First: "Clicks",
		Name: "Pages", Tone: First}
	for i := range 23 {
		hist.Rows = append(hist.Rows, Row{string(rune('a' + i)), []float64{float64(i * i)}})
	}
	ms := func(v float64) string { return number(v) + " ms" }
	return map[string]template.HTML{
		"bars": (&Bars{Caption: Caption{ID: "b", Title: "Sections", Desc: "Times by section.", Format: ms},
			First: "Section", Series: two,
			Rows: []Row{{"/", []float64{12, 80}}, {"/blog/", []float64{5.5, 40}}}}).HTML(),
		"bars-hostile": (&Bars{Caption: Caption{ID: "b", Title: hostileLabels[0], Desc: hostileLabels[1]}, First: hostileLabels[0],
			Series: two, Rows: hostileRows()}).HTML(),
		"bars-empty": (&Bars{Caption: Caption{ID: "b", Title: "None", Desc: "Nothing."}}).HTML(),
		"stack": (&Stack{Caption: Caption{ID: "s", Title: "Answers", Desc: "Answers by class."}, First: "Class",
			Parts: []Part{{"2xx", 99_990, Good}, {"3xx", 5, Info}, {"5xx", 5, Bad}}}).HTML(),
		"stack-hostile": (&Stack{Caption: Caption{ID: "s", Title: "Answers", Desc: "Answers by class."}, First: "Class",
			Parts: []Part{{hostileLabels[0], 1, Good}, {hostileLabels[2], 2, Info}}}).HTML(),
		"stack-empty": (&Stack{Caption: Caption{ID: "s", Title: "Answers", Desc: "Answers by class."}}).HTML(),
		"histogram":   hist.HTML(),
		"lines":       lines.HTML(),
		"lines-one":   one.HTML(),
		"lines-empty": (&Lines{Caption: lines.Caption}).HTML(),
	}
}

func TestGolden(t *testing.T) {
	for name, got := range charts() {
		path := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(got) {
			t.Errorf("%s differs from its golden file (go test -update writes it again):\n%s", name, got)
		}
	}
}

// Every chart has a name, a description and a table, no script, no style of its own and no reference; whatever the
// labels are.
func TestElements(t *testing.T) {
	allowed := map[string]string{"html": "", "head": "", "body": "", "figure": "class id", "figcaption": "",
		"svg": "class role aria-labelledby width height x y viewBox preserveAspectRatio", "title": "id", "desc": "id",
		"text": "class x y", "rect": "class x y width height", "line": "class x1 x2 y1 y2",
		"polyline": "class vector-effect points",
		"ul":       "class", "li": "", "span": "class", "b": "", "bdi": "", "p": "class",
		"details": "", "summary": "", "div": "class tabindex role aria-label", "table": "", "thead": "", "tbody": "",
		"tr": "", "th": "scope class", "td": "class"}
	for name, text := range charts() {
		root, err := html.Parse(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for n := range root.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			seen[n.Data]++
			attrs, ok := allowed[n.Data]
			if !ok {
				t.Errorf("%s has an element %s", name, n.Data)
			}
			for _, a := range n.Attr {
				if !strings.Contains(" "+attrs+" ", " "+a.Key+" ") {
					t.Errorf("%s: %s has an attribute %s", name, n.Data, a.Key)
				}
			}
		}
		if strings.HasSuffix(name, "-empty") {
			continue
		}
		if seen["title"] != 1 || seen["desc"] != 1 || seen["table"] != 1 {
			t.Errorf("%s has %d titles, %d descriptions and %d tables", name, seen["title"], seen["desc"],
				seen["table"])
		}
		if strings.ContainsRune(string(text), '\u202E') || len(text) > 20_000 {
			t.Errorf("%s shows a label in full that is dangerous or too long (%d bytes)", name, len(text))
		}
	}
}

func TestChartNumbers(t *testing.T) {
	counts, rates := &Caption{}, &Caption{Format: number}
	for v, want := range map[float64]float64{0: 2, 1: 2, 2: 2, 3: 4, 7: 8, 9: 10, 10: 10, 11: 20, 61: 80, 99: 100,
		1234: 2000} {
		if got := counts.axisTop(v); got != want {
			t.Errorf("the top of an axis for %v is %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]float64{0: 1, 0.3: 1, 1.5: 2, 2.5: 4} {
		if got := rates.axisTop(v); got != want {
			t.Errorf("the top of an axis for a rate of %v is %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 250: "250", 2000: "2k", 4500: "4.5k", 1e6: "1M",
		3e9: "3G"} {
		if got := axisValue(v); got != want {
			t.Errorf("%v at an axis is %q, want %q", v, got, want)
		}
	}
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abcd", "abcde": "abc…", "ääääää": "äää…"} {
		if got := Cut(text, 4); got != want {
			t.Errorf("Cut(%q) is %q, want %q", text, got, want)
		}
	}
	for part, want := range map[float64]string{0: "0 %", 0.01: "< 0.1 %", 50: "50 %", 33.333: "33.3 %",
		99.99: "> 99.9 %", 100: "100 %"} {
		if got := Percent(part, 100); got != want {
			t.Errorf("%v of 100 is %q, want %q", part, got, want)
		}
	}
}
