package chart

import (
	"html/template"
	"math"
)

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
				v = max(v, most/200) // what is there is seen
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
			p.Tone, esc(Cut(p.Label, maxLabel)), esc(s.format(p.Value)), esc(Share(p.Value, whole)))
	}
	f.add("</ul>\n")
	f.table(s.First, []Series{{Name: "Count"}}, rows)
	f.add("</figure>\n")
	return template.HTML(f.String())
}

// Share writes a part of a whole in percent, and never rounds a part that is there to 0 %, or one that is not the whole
// to 100 %.
func Share(part, whole float64) string {
	p := 100 * part / max(whole, 1)
	switch {
	case part > 0 && p < 0.1:
		return "< 0.1 %"
	case part < whole && p > 99.9:
		return "> 99.9 %"
	}
	return number(math.Round(p*10)/10) + " %"
}
