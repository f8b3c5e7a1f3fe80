package chart

import "html/template"

// Histogram is vertical bars, one for each row, whose first value counts.
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
			high = max(high, 1) // what is there is seen
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
