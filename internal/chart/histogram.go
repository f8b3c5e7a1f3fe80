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
	plotTop    = 18
	axisHeight = 20
)

// axisShare is the part of the width that the values at the axis take.
const axisShare = 0.14

// maxBarLabels is how many bars have a label at the axis. With more bars, the last has one, and every second, third … before it.
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
	top := niceMax(most)
	f := h.open(plotTop + plotHeight + axisHeight)
	f.grid()
	// The bars begin beside the values of the axis.
	n := float64(len(h.Rows))
	wide := n / (1 - axisShare)
	left := wide - n
	every := (len(h.Rows) + maxBarLabels - 1) / maxBarLabels
	for i, r := range h.Rows {
		high := plotHeight * r.Values[0] / top
		if r.Values[0] > 0 {
			high = max(high, 1) // what is there is seen
		}
		f.add("<rect class=\"mark %s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>", h.Tone, percent(left+float64(i)+0.1, wide), number(plotTop+plotHeight-high), percent(0.8, wide), number(high))
		if (len(h.Rows)-1-i)%every == 0 {
			anchor, x := "middle", left+float64(i)+0.5
			if every > 1 && i == len(h.Rows)-1 {
				anchor, x = "end", wide // bars are narrow: in the middle of the last, a word would be cut off
			}
			f.add("<text class=\"tick %s\" x=\"%s\" y=\"%d\">%s</text>", anchor, percent(x, wide), plotTop+plotHeight+14, esc(Cut(r.Label, 8)))
		}
		f.add("\n")
	}
	f.gridValues(top)
	return f.close(h.First, []Series{{h.Name, h.Tone}}, h.Rows)
}

// grid draws the lines of an axis.
func (f *figure) grid() {
	for i := range 3 {
		y := plotTop + plotHeight*i/2
		f.add("<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%d\" y2=\"%d\"/>\n", y, y)
	}
}

// gridValues writes the values at the lines of an axis from 0 to top, over what is drawn.
func (f *figure) gridValues(top float64) {
	for i := range 2 {
		f.add("<text class=\"tick over\" paint-order=\"stroke\" x=\"0\" y=\"%d\">%s</text>\n", plotTop+plotHeight*i/2-4, esc(f.caption.format(top*float64(2-i)/2)))
	}
}
