package view

import (
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
)

// Screen is what a picture is drawn for.
type Screen struct {
	Width, Height int  // in cells. Zero means 80 and 24
	Color         bool // escape sequences for colours and weight
	Unicode       bool // characters beyond ASCII
}

// Notes are what a picture says beside the crawl's own state.
type Notes struct {
	Log      string // where the log goes
	Warnings int64  // warnings and errors in it so far
	Hint     string // advice about this crawl's settings; may be empty
}

// Render draws a crawl's state. The picture has exactly Height lines of at most Width cells. Where not everything fits,
// what matters least is left out.
func Render(l *monitor.Live, n Notes, s Screen) string {
	if s.Width <= 0 {
		s.Width = 80
	}
	if s.Height <= 0 {
		s.Height = 24
	}
	p := &picture{Screen: s}
	p.draw(l, n)
	return p.String()
}

// Ranks of lines: if not all lines fit, those with the highest rank are left out first.
const (
	rankTitle = iota
	rankURLs
	rankRate
	rankNote
	rankOutcomes
	rankLimits
	rankMemory
	rankFrontier
	rankWorkers
	rankFound
	rankHosts
	rankTables  // the first rank of resting and busiest hosts
	rankFooter  = rankTables + 20
	rankSlowest = rankTables + 30
	rankBlank   = rankTables + 100
)

// picture collects the lines of one drawing.
type picture struct {
	Screen
	lines []line
	foot  int // index of the first line at the bottom of the screen
}

type line struct {
	text row
	rank int
	head bool // of a table: left out if the line after it is
}

func (p *picture) draw(l *monitor.Live, n Notes) {
	p.title("Mapwright  "+startsOf(l), l.Profile+"  "+clock(l.Elapsed))
	p.blank()
	p.facts(l)
	p.blank()
	p.bars(l)
	p.tables(l)
	p.foot = len(p.lines)
	p.blank()
	p.notes(l)
	if n.Hint != "" {
		p.note(rankFooter, faint, n.Hint)
	}
	p.footer(n)
}

func (p *picture) add(rank int, r row) { p.lines = append(p.lines, line{text: r, rank: rank}) }

func (p *picture) blank() { p.add(rankBlank, nil) }

// title is the first line: a text on the left, another on the right.
func (p *picture) title(left, right string) {
	free := p.Width - width(right) - 1
	left = p.cut(left, free)
	p.add(rankTitle, row{{bold, left}, {plain, strings.Repeat(" ", max(1, p.Width-width(left)-width(right)))},
		{plain, right}})
}

// String keeps the most important lines that fit, in their order. Empty lines fill the rest of the screen, above the
// lines at the bottom.
func (p *picture) String() string {
	chosen := p.choose()
	var out []string
	for i, l := range p.lines {
		if i == p.foot {
			for range p.Height - len(chosen) {
				out = append(out, "")
			}
		}
		if _, ok := slices.BinarySearch(chosen, i); ok {
			out = append(out, l.text.text(p.Width, p.Color))
		}
	}
	for len(out) < p.Height {
		out = append(out, "")
	}
	return strings.Join(out, "\n")
}

func (p *picture) choose() []int {
	order := make([]int, len(p.lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.lines[a].rank - p.lines[b].rank })
	chosen := order[:min(len(order), p.Height)]
	slices.Sort(chosen)
	return slices.DeleteFunc(chosen, func(i int) bool {
		_, next := slices.BinarySearch(chosen, i+1)
		return p.lines[i].head && !next
	})
}

// share is a part of a whole between 0 and 1.
func share(part, whole float64) float64 {
	if p := part / whole; whole > 0 && p > 0 {
		return min(1, p)
	}
	return 0
}
