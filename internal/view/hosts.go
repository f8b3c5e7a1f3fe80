package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl/monitor"

	"github.com/dustin/go-humanize"
)

// tables lists the resting, the busiest and the slowest hosts. The ranks of resting and busiest hosts alternate, so
// that a small screen shows the first lines of both.
func (p *picture) tables(l *monitor.Live) {
	p.table("Resting", []string{"why", "may be asked in"}, []int{26, 16}, rankTables, 2, l.Resting, restingCells)
	asked := []string{"in flight", "requests", "pending", "delay", "answers in"}
	widths := []int{10, 10, 10, 9, 11}
	p.table("Busiest", asked, widths, rankTables+1, 2, l.Busiest, askedCells)
	if !within(l.Slowest, l.Busiest) {
		p.table("Slowest", asked, widths, rankSlowest, 1, l.Slowest, askedCells)
	}
}

// within reports whether every host of list is in other.
func within(list, other []monitor.HostUse) bool {
	for _, h := range list {
		if !slices.ContainsFunc(other, func(o monitor.HostUse) bool { return o.Host == h.Host }) {
			return false
		}
	}
	return true
}

// hostWidth is the most that a host's name gets of a wide screen, so that its figures stay near it.
const hostWidth = 60

// table draws one list of hosts. The ranks of its lines are rank, rank+step, rank+2*step and so on.
func (p *picture) table(name string, heads []string, widths []int, rank, step int, list []monitor.HostUse,
	cells func(monitor.HostUse) []string) {
	if len(list) == 0 {
		return
	}
	rest := p.Width
	for _, w := range widths {
		rest -= w
	}
	rest = min(max(rest, 12), hostWidth)
	cols := func(first string, others []string) string {
		var b strings.Builder
		b.WriteString(p.left(first, rest-1) + " ")
		for i, text := range others {
			b.WriteString(p.right(text, widths[i]))
		}
		return b.String()
	}
	p.lines = append(p.lines, line{text: row{{bold, cols(name, heads)}}, rank: rank, head: true})
	for i, h := range list {
		p.add(rank+i*step, row{{plain, cols(h.Host, cells(h))}})
	}
}

func askedCells(h monitor.HostUse) []string {
	latency := "-"
	if h.LatencyMS > 0 {
		latency = milliseconds(h.LatencyMS)
	}
	return []string{fmt.Sprintf("%d/%d", h.InFlight, h.Limit), humanize.Comma(h.Leases), humanize.Comma(h.Pending),
		milliseconds(h.DelayMS), latency}
}

func restingCells(h monitor.HostUse) []string {
	why := h.Why
	switch {
	case h.Why == "backoff" && h.Failures > 0:
		why = "failed " + times(h.Failures)
	case h.Refusals > 0:
		why = "refused " + times(h.Refusals)
	}
	return []string{why, toGo(h.Left)}
}
