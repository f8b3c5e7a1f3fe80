package ui

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

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

// figure builds the HTML of a chart.
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

// Cut shortens a text to at most most characters. The last character of a shortened text is an ellipsis.
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

// axisTop is the top of an axis for values up to v: the next of 1, 2, 4, 6, 8, 10, 20, 40 … that is not below v. For
// counts it is at least 2, so that half of it is a whole number.
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

// Bars are horizontal bars, one group for each row and one bar in it for each series.
type Bars struct {
	Caption
	First  string // heads the column of labels in the table
	Series []Series
	Rows   []Row
}

// Sizes in pixels.
const (
	labelHeight = 18
	barHeight   = 10
	rowGap      = 10
)

// HTML draws the chart.
func (b *Bars) HTML() template.HTML {
	most := 0.0
	for _, r := range b.Rows {
		for _, v := range r.Values {
			most = max(most, v)
		}
	}
	if len(b.Rows) == 0 {
		return b.empty()
	}
	rowHeight := labelHeight + barHeight*len(b.Series) + rowGap
	f := b.open("flat", rowHeight*len(b.Rows))
	for i, r := range b.Rows {
		y := i * rowHeight
		f.add("<text class=\"label\" x=\"0\" y=\"%d\">%s</text>", y+labelHeight-5, esc(Cut(r.Label, maxLabel)))
		text := ""
		for k, v := range r.Values {
			if k > 0 {
				text += " / "
			}
			text += b.format(v)
		}
		f.add("<text class=\"value\" x=\"100%%\" y=\"%d\">%s</text>\n", y+labelHeight-5, esc(text))
		for k, v := range r.Values {
			if v > 0 {
				v = max(v, most/200) // small values stay visible
			}
			top := y + labelHeight + k*barHeight
			f.add("<rect class=\"track\" x=\"0\" y=\"%d\" width=\"100%%\" height=\"%d\"/>", top, barHeight-2)
			f.add("<rect class=\"mark %s\" x=\"0\" y=\"%d\" width=\"%s\" height=\"%d\"/>\n", b.Series[k].Tone, top,
				percent(v, most), barHeight-2)
		}
	}
	return f.close(b.First, b.Series, b.Rows)
}

// Stack is one bar whose parts add up to a whole.
type Stack struct {
	Caption
	First string // heads the column of labels in the table
	Parts []Part
}

// Part is one part of a stacked bar.
type Part struct {
	Label string
	Value float64
	Tone  Tone
}

// HTML draws the chart.
func (s *Stack) HTML() template.HTML {
	whole := 0.0
	for _, p := range s.Parts {
		whole += p.Value
	}
	if whole <= 0 {
		return s.empty()
	}
	const height = 28
	f := s.open("flat", height)
	at := 0.0
	rows := make([]Row, 0, len(s.Parts))
	for _, p := range s.Parts {
		f.add("<rect class=\"mark part %s\" x=\"%s\" y=\"0\" width=\"%s\" height=\"%d\"/>\n", p.Tone,
			percent(at, whole), percent(p.Value, whole), height)
		at += p.Value
		rows = append(rows, Row{p.Label, []float64{p.Value}})
	}
	f.add("</svg>\n<ul class=\"legend\">\n")
	for _, p := range s.Parts {
		f.add("<li><span class=\"swatch %s\"></span><bdi>%s</bdi> <b>%s</b> <span class=\"share\">%s</span></li>\n",
			p.Tone, esc(Cut(p.Label, maxLabel)), esc(s.format(p.Value)), esc(Percent(p.Value, whole)))
	}
	f.add("</ul>\n")
	f.table(s.First, []Series{{Name: "Count"}}, rows)
	f.add("</figure>\n")
	return template.HTML(f.String())
}

// Percent writes a part of a whole in percent. It never rounds a part that is there to 0 %, or one that is not the
// whole to 100 %.
func Percent(part, whole float64) string {
	p := 100 * part / max(whole, 1)
	switch {
	case part > 0 && p < 0.1:
		return "< 0.1 %"
	case part < whole && p > 99.9:
		return "> 99.9 %"
	}
	return number(math.Round(p*10)/10) + " %"
}

// Histogram is a chart of vertical bars: one for the first value of each row.
type Histogram struct {
	Caption
	First string // heads the column of labels in the table
	Name  string // of what is counted
	Tone  Tone
	Rows  []Row
}

// Sizes in pixels.
const (
	plotHeight = 140
	plotTop    = 8
	axisHeight = 22
)

// maxBarLabels is how many bars have a label at the axis. With more bars, the last has one, and every second, third …
// before it.
const maxBarLabels = 6

// HTML draws the chart.
func (h *Histogram) HTML() template.HTML {
	if len(h.Rows) == 0 {
		return h.empty()
	}
	most := 0.0
	for _, r := range h.Rows {
		most = max(most, r.Values[0])
	}
	top := h.axisTop(most)
	f := h.open("plot", plotTop+plotHeight+axisHeight)
	f.axis(top)
	n := float64(len(h.Rows))
	every := (len(h.Rows) + maxBarLabels - 1) / maxBarLabels
	for i, r := range h.Rows {
		high := plotHeight * r.Values[0] / top
		if r.Values[0] > 0 {
			high = max(high, 1) // small values stay visible
		}
		f.add("<rect class=\"mark %s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>", h.Tone,
			percent(float64(i)+0.1, n), number(plotTop+plotHeight-high), percent(0.8, n), number(high))
		if (len(h.Rows)-1-i)%every == 0 {
			anchor, x := "middle", float64(i)+0.5
			if every > 1 && i == len(h.Rows)-1 {
				anchor, x = "end", n // bars are narrow: in the middle of the last, a word would be cut off
			}
			f.add("<text class=\"tick %s\" x=\"%s\" y=\"%d\">%s</text>", anchor, percent(x, n), plotTop+plotHeight+16,
				esc(Cut(r.Label, 8)))
		}
		f.add("\n")
	}
	return f.close(h.First, []Series{{h.Name, h.Tone}}, h.Rows)
}

// axis draws the lines of an axis from 0 to top, and writes the values beside them, left of the drawing.
func (f *figure) axis(top float64) {
	for i := range 3 {
		y := plotTop + plotHeight*i/2
		f.add("<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%d\" y2=\"%d\"/><text class=\"tick end\" x=\"-8\" "+
			"y=\"%d\">%s</text>\n", y, y, y+4, axisValue(top*float64(2-i)/2))
	}
}

// Lines are values over time, one line for each series.
type Lines struct {
	Caption
	Series []Series
	Points []Point // by time
}

// Point is the values of all series at one moment.
type Point struct {
	At     time.Time
	Values []float64
}

// maxTableRows is how many moments the table shows: the last, and others at equal distances.
const maxTableRows = 40

// HTML draws the chart.
func (l *Lines) HTML() template.HTML {
	if len(l.Points) == 0 {
		return l.empty()
	}
	most := 0.0
	for _, p := range l.Points {
		for _, v := range p.Values {
			most = max(most, v)
		}
	}
	top := l.axisTop(most)
	f := l.open("plot", plotTop+plotHeight+axisHeight)
	f.axis(top)
	first, last := l.Points[0].At, l.Points[len(l.Points)-1].At
	span := max(last.Sub(first), 1)
	// The inner drawing is stretched to the width. Its lines stay as thick as they are.
	f.add("<svg x=\"0\" y=\"%d\" width=\"100%%\" height=\"%d\" viewBox=\"0 0 1000 %d\" preserveAspectRatio=\"none\">\n",
		plotTop, plotHeight, plotHeight)
	for k, s := range l.Series {
		var points strings.Builder
		for i, p := range l.Points {
			if i > 0 {
				points.WriteByte(' ')
			}
			points.WriteString(number(1000*float64(p.At.Sub(first))/float64(span)) + "," +
				number(plotHeight-plotHeight*p.Values[k]/top))
		}
		if len(l.Points) == 1 {
			points.WriteString(" 1000," + number(plotHeight-plotHeight*l.Points[0].Values[k]/top))
		}
		f.add("<polyline class=\"line %s\" vector-effect=\"non-scaling-stroke\" points=\"%s\"/>\n", s.Tone,
			points.String())
	}
	f.add("</svg>\n")
	layout := timeLayout(first, last)
	f.add("<text class=\"tick\" x=\"0\" y=\"%d\">%s</text>", plotTop+plotHeight+16, first.UTC().Format(layout))
	f.add("<text class=\"tick end\" x=\"100%%\" y=\"%d\">%s UTC</text>\n", plotTop+plotHeight+16,
		last.UTC().Format(layout))
	return f.close("Time (UTC)", l.Series, l.rows(layout))
}

// timeLayout is the form of times on an axis: with the day, if there are several.
func timeLayout(first, last time.Time) string {
	if first.UTC().YearDay() == last.UTC().YearDay() && last.Sub(first) < 24*time.Hour {
		return "15:04:05"
	}
	return "2006-01-02 15:04"
}

func (l *Lines) rows(layout string) []Row {
	every := (len(l.Points) + maxTableRows - 1) / maxTableRows
	var rows []Row
	for i, p := range l.Points {
		if (len(l.Points)-1-i)%every == 0 {
			rows = append(rows, Row{p.At.UTC().Format(layout), p.Values})
		}
	}
	return rows
}
