package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// plotted is the newest recording that has more than one size of the growth benchmark; nil if there is none.
func plotted(all []*recording) *recording {
	for _, r := range all {
		if len(sizes(r)) > 1 {
			return r
		}
	}
	return nil
}

// sizes are the sizes of the growth benchmark, smallest first.
func sizes(r *recording) []int {
	var all []int
	for _, name := range r.names() {
		if text, ok := strings.CutPrefix(name, growth); ok {
			if n, err := strconv.Atoi(text); err == nil {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return all
}

// The picture's measures.
const (
	plotWidth, plotHeight = 720, 560
	panelLeft, panelWidth = 90, 590
	panelHeight           = 190
)

// plotGrowth draws speed and memory over the number of URLs: a dot for each crawl, a line through the medians.
func plotGrowth(all []*recording) string {
	r := plotted(all)
	if r == nil {
		return ""
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(b, `<title>Growth, %s</title>`+"\n", title(r))
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	at100k := median(r.gather(growth+"100000", perSecond))
	drawPanel(b, r, panel{top: 40, head: "pages/s", unit: perSecond, colour: "#1f5fa8", bar: 0.8 * at100k,
		barText: "0.8 × that at 100 thousand"})
	drawPanel(b, r, panel{top: 310, head: "anonymous RSS, MB", unit: "anon-MB", colour: "#a8501f", bar: 1024,
		barText: "1 GB"})
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">URLs of one host</text>`+"\n", panelLeft+panelWidth/2,
		plotHeight-12)
	b.WriteString("</svg>\n")
	return b.String()
}

type panel struct {
	top        int
	head, unit string
	colour     string
	bar        float64 // drawn dashed, if it is not zero
	barText    string
}

func drawPanel(b *strings.Builder, r *recording, p panel) {
	all := sizes(r)
	lowX, highX := math.Log10(float64(all[0])), math.Log10(float64(all[len(all)-1]))
	highest := p.bar
	for _, n := range all {
		highest = max(highest, slices.Max(append(r.gather(growth+strconv.Itoa(n), p.unit), 0)))
	}
	step := niceStep(highest)
	top := step * math.Ceil(highest*1.05/step)
	x := func(n int) float64 {
		return panelLeft + 20 + (panelWidth-40)*(math.Log10(float64(n))-lowX)/(highX-lowX)
	}
	y := func(v float64) float64 { return float64(p.top+panelHeight) - v/top*panelHeight }

	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", panelLeft, p.top-14, p.head)
	for v := 0.0; v <= top+step/2; v += step {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			panelLeft, panelLeft+panelWidth, y(v), y(v), panelLeft-8, y(v)+4, number(v))
	}
	if p.bar > 0 {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#666" stroke-dasharray="5 4"/><text x="%d" y="%.1f" text-anchor="end" fill="#666">%s</text>`+"\n",
			panelLeft, panelLeft+panelWidth, y(p.bar), y(p.bar), panelLeft+panelWidth-4, y(p.bar)-5, p.barText)
	}
	var line []string
	for _, n := range all {
		values := r.gather(growth+strconv.Itoa(n), p.unit)
		if len(values) == 0 {
			continue
		}
		for _, v := range values {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s" fill-opacity="0.55"/>`+"\n", x(n), y(v),
				p.colour)
		}
		line = append(line, fmt.Sprintf("%.1f,%.1f", x(n), y(median(values))))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(n), p.top+panelHeight+18,
			sizeName(n))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "),
		p.colour)
}

// niceStep divides a range into about five steps of 1, 2 or 5 times a power of ten.
func niceStep(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	rough := highest / 5
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough {
			return m * power
		}
	}
	return 10 * power
}

func sizeName(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + " million"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + " thousand"
	}
	return strconv.Itoa(n)
}
