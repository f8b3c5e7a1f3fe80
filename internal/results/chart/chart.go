package chart

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
)

// Tone is a colour by its meaning: a class of the style sheet.
type Tone string

// The tones. First to Third tell series apart that are neither good nor bad.
const (
	Good   Tone = "t-good"
	Info   Tone = "t-info"
	Warn   Tone = "t-warn"
	Bad    Tone = "t-bad"
	Muted  Tone = "t-muted"
	First  Tone = "t-first"
	Second Tone = "t-second"
	Third  Tone = "t-third"
)

// Caption is what every chart has.
type Caption struct {
	ID    string // of the element; unique in its page
	Title string
	Desc  string // what the chart shows, in one sentence
	None  string // what is said if there are no values; empty means that there is nothing to show
	// Format writes a value with its unit. Nil writes whole numbers with separators.
	Format func(float64) string
}

// Series names one of several values at each place.
type Series struct {
	Name string
	Tone Tone
}

// Row is one place with a value for each series.
type Row struct {
	Label  string
	Values []float64
}

// maxLabel is how many characters of a label are drawn. The table has more.
const (
	maxLabel     = 34
	maxCellLabel = 300
)

func (c *Caption) format(v float64) string {
	if c.Format != nil {
		return c.Format(v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

// figure is a chart in the making.
type figure struct {
	strings.Builder
	caption *Caption
}

func (f *figure) add(format string, args ...any) { fmt.Fprintf(f, format, args...) }

// open begins the figure and its drawing, which is height pixels high. The class of the drawing is plot, if it has an
// axis of values at its left, or flat.
func (c *Caption) open(class string, height int) *figure {
	f := &figure{caption: c}
	id := esc(c.ID)
	f.add("<figure class=\"chart\" id=\"%s\">\n<figcaption>%s</figcaption>\n", id, esc(c.Title))
	f.add("<svg class=\"%s\" role=\"img\" aria-labelledby=\"%s-t %s-d\" width=\"100%%\" height=\"%d\">\n<title "+
		"id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n",
		class, id, id, height, id, esc(c.Title), id, esc(c.Desc))
	return f
}

// empty is the figure of a chart without values.
func (c *Caption) empty() template.HTML {
	return template.HTML(fmt.Sprintf("<figure class=\"chart\" id=\"%s\">\n<figcaption>%s</figcaption>\n<p "+
		"class=\"empty\">%s</p>\n</figure>\n", esc(c.ID), esc(c.Title),
		esc(cmp.Or(c.None, "Nothing to show."))))
}

// close ends the drawing, and adds a legend, if there are several series, and the table.
func (f *figure) close(first string, series []Series, rows []Row) template.HTML {
	f.add("</svg>\n")
	if len(series) > 1 {
		f.add("<ul class=\"legend\">\n")
		for _, s := range series {
			f.add("<li><span class=\"swatch %s\"></span>%s</li>\n", s.Tone, esc(s.Name))
		}
		f.add("</ul>\n")
	}
	f.table(first, series, rows)
	f.add("</figure>\n")
	return template.HTML(f.String())
}

func (f *figure) table(first string, series []Series, rows []Row) {
	f.add("<details>\n<summary>Numbers of “%s”</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "+
		"aria-label=\"Numbers of %s\">\n"+
		"<table>\n<thead><tr><th scope=\"col\">%s</th>", esc(f.caption.Title), esc(f.caption.Title), esc(first))
	for _, s := range series {
		f.add("<th scope=\"col\" class=\"num\">%s</th>", esc(s.Name))
	}
	f.add("</tr></thead>\n<tbody>\n")
	for _, r := range rows {
		f.add("<tr><th scope=\"row\"><bdi>%s</bdi></th>", esc(Cut(r.Label, maxCellLabel)))
		for _, v := range r.Values {
			f.add("<td class=\"num\">%s</td>", esc(f.caption.format(v)))
		}
		f.add("</tr>\n")
	}
	f.add("</tbody>\n</table>\n</div>\n</details>\n")
}

// esc makes any text safe in an element and in a quoted attribute. Characters that turn the direction of text around
// are shown as escapes.
func esc(text string) string {
	return html.EscapeString(page.EscapeControls(strings.ToValidUTF8(text, "\uFFFD")))
}

// Cut shortens a text to at most most characters, the last of which is an ellipsis then.
func Cut(text string, most int) string {
	n := 0
	for i := range text {
		if n == most-1 {
			if rest := text[i:]; len([]rune(rest[:min(len(rest), 8)])) > 1 {
				return text[:i] + "…"
			}
		}
		n++
	}
	return text
}

// percent writes a share of a whole as a length.
func percent(part, whole float64) string {
	if whole <= 0 {
		return "0%"
	}
	return number(100*part/whole) + "%"
}

// number writes a coordinate with at most two digits after the point.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// axisTop is the top of an axis for values up to v: the next of 1, 2, 4, 6, 8, 10, 20, 40 … that is not below v. Half
// of it is whole for counts, whose axis reaches 2 at least.
func (c *Caption) axisTop(v float64) float64 {
	least := 1.0
	if c.Format == nil {
		least = 2
	}
	base := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, step := range []float64{1, 2, 4, 6, 8} {
		if v <= step*base {
			return max(step*base, least)
		}
	}
	return 10 * base
}

// axisValue writes a value at an axis in few characters: 250, 2.5k, 10M.
func axisValue(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	return number(v) + unit
}
