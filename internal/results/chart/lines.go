package chart

import (
	"html/template"
	"strings"
	"time"
)

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
