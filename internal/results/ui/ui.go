// Package ui writes HTML for people: the style sheet, the script that sorts tables, the charts and the pieces of
// html/template that report.html and the dashboard share, and report.html itself. Everything is embedded.
//
// [Parse] gives a set of templates with the pieces (url, badge, table) and the functions (show, whole, comma, size,
// seconds, millis, decimal, when); a user adds the templates of its own pages.
//
// A chart (Bars, Stack, Histogram, Lines) is a value, and its HTML method is a pure function of it. It has a title and
// a description for screen readers, and the same numbers as a table. It contains no script, no style attribute and no
// reference to another file. Colours are classes (see [Tone]) of the style sheet, for dark and light. Labels may be any
// text: they are escaped. Widths are percentages, so that a chart fills its column and its text keeps its size.
//
// report.html ([Render]) is a pure function of report.json. It contains everything that it shows, and makes no request.
// Tables are cut, so that its size is bounded whatever the size of the crawl.
package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
)

//go:embed style.css sort.js templates
var files embed.FS

// StyleSheet is the style sheet.
func StyleSheet() string { return read("style.css") }

// SortScript is the script that makes tables sortable. Pages work without it.
func SortScript() string { return read("sort.js") }

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// Source is a script or style sheet as a source of a Content-Security-Policy: its hash in quotes. The element must
// contain the text unchanged.
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Parse reads the templates of pages that use the pieces.
func Parse(pages fs.FS, patterns ...string) (*template.Template, error) {
	t, err := template.New("").Option("missingkey=zero").Funcs(functions()).ParseFS(files, "templates/pieces.tmpl")
	if err != nil {
		return nil, err
	}
	return t.ParseFS(pages, patterns...)
}

func functions() template.FuncMap {
	return template.FuncMap{
		"show": shown, "whole": func(text string) string { return show(text, maxWhole) }, "isLink": IsLink,
		"comma": humanize.Comma,
		"size":  Size, "seconds": Seconds, "millis": Millis, "when": When, "decimal": Decimal,
		"lower": strings.ToLower,
	}
}

// maxShown is how many characters of a text are shown, maxWhole how many where all of it matters, and maxLink the
// length of the longest address that is made a link.
const (
	maxShown = 300
	maxWhole = 4000
	maxLink  = 2048
)

// shown is a text as it is shown: not too long, and without characters that hide or reverse the text around them.
func shown(text string) string { return show(text, maxShown) }

func show(text string, length int) string {
	return Cut(page.EscapeControls(strings.ToValidUTF8(text, "\uFFFD")), length)
}

// IsLink reports whether a text is an address that a page may link to.
func IsLink(text string) bool {
	return len(text) <= maxLink && (strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://"))
}

// Size writes a number of bytes.
func Size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// Seconds writes a duration that is given in seconds. From a minute on, the script of the dashboard writes the same.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d >= time.Minute-time.Second/2 {
		return d.Round(time.Second).String()
	}
	return Millis(s * 1000)
}

// Millis writes a duration that is given in milliseconds.
func Millis(ms float64) string {
	if ms < 1000 {
		return humanize.Comma(int64(math.Round(ms))) + " ms"
	}
	return Decimal(ms/1000) + " s"
}

// Decimal writes a number with one digit after the point.
func Decimal(v float64) string { return humanize.CommafWithDigits(math.Round(v*10)/10, 1) }

// Capital writes the first letter of a text as a capital.
func Capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// When writes a moment.
func When(t page.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
