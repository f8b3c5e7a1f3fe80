package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/words"
)

// labelWidth is the column of names at the left.
const labelWidth = 10

func (p *picture) fact(rank int, name string, text string) {
	p.add(rank, row{{faint, p.left(name, labelWidth)}, {plain, p.cut(text, p.Width-labelWidth)}})
}

// facts adds the most important numbers.
func (p *picture) facts(l *monitor.Live) {
	p.fact(rankRate, "Rate", fmt.Sprintf("%s pages/s now, %s overall", rate(l.PagesPerSecNow), rate(l.PagesPerSec)))
	p.fact(rankURLs, "URLs", fmt.Sprintf("%s found, %s done, %s pending, %s in flight", humanize.Comma(l.Found),
		humanize.Comma(l.Done), humanize.Comma(l.Pending), humanize.Comma(l.InFlight)))
	p.outcomes(l)
	if c := l.Cluster; c != nil {
		text := fmt.Sprintf("%s: machines %s, %d of 256 partitions here; %s hand-overs wait, a batch takes %s", c.Name,
			humanize.Comma(int64(c.Machines)), c.Partitions,
			humanize.Comma(int64(c.Handovers)), milliseconds(c.BatchMS))
		if c.Unowned > 0 {
			text += fmt.Sprintf("; %d partitions without a machine", c.Unowned)
		}
		if c.Replaying > 0 {
			text += fmt.Sprintf("; reading the logs of %d, %s rows left", c.Replaying,
				humanize.Comma(int64(c.RowsLeft)))
		}
		if c.Takeovers > 0 {
			text += fmt.Sprintf("; %s partitions taken over", humanize.Comma(int64(c.Takeovers)))
		}
		if c.Fenced > 0 {
			text += fmt.Sprintf("; sessions fenced: %s", humanize.Comma(int64(c.Fenced)))
		}
		p.fact(rankOutcomes, "Cluster", text)
	}
	if l.Generation > 0 {
		p.fact(rankOutcomes, "Recrawl", fmt.Sprintf("generation %d; %s of %s conditional requests were answered 304",
			l.Generation, humanize.Comma(l.NotModified), humanize.Comma(l.Conditional)))
	}
	p.fact(rankMemory, "Received", fmt.Sprintf("%s, %s/s now; memory %s", size(float64(l.Bytes)),
		size(l.BytesPerSecNow), size(float64(l.Memory))))
	p.fact(rankFrontier, "Frontier", fmt.Sprintf("%s URLs in memory, %s on disk", humanize.Comma(l.InMemory),
		humanize.Comma(l.OnDisk)))
	p.fact(rankHosts, "Hosts", hosts(l))
	workers := fmt.Sprintf("%s of %s at work", humanize.Comma(int64(l.Workers.InUse)),
		humanize.Comma(int64(l.Workers.Limit)))
	p.fact(rankWorkers, "Workers", fmt.Sprintf("%s; commits take %s, log %s", workers, milliseconds(l.CommitMS),
		size(float64(l.LogBytes))))
}

// outcomes counts what became of URLs, the largest number first.
func (p *picture) outcomes(l *monitor.Live) {
	names := slices.DeleteFunc(words.ByCount(l.Outcomes), func(name string) bool { return name == "pending" })
	p.fact(rankOutcomes, "Outcomes", cmp.Or(words.Counts(l.Outcomes, names), "none yet"))
}

// hosts says how many hosts have something pending, and what they wait for: what is wrong first, then the largest
// number.
func hosts(l *monitor.Live) string {
	var all int64
	for _, n := range l.Hosts {
		all += n
	}
	if all == 0 {
		return "none with anything pending"
	}
	first := []string{"rest", "backoff", "blocked", "abandoned"}
	names := slices.DeleteFunc(slices.Clone(first), func(why string) bool { return l.Hosts[why] == 0 })
	for _, why := range words.ByCount(l.Hosts) {
		if !slices.Contains(first, why) {
			names = append(names, why)
		}
	}
	return humanize.Comma(all) + ": " + words.Counts(l.Hosts, names)
}

// bars shows how far the crawl is, compared with the URLs found and with its limits.
func (p *picture) bars(l *monitor.Live) {
	done := share(float64(l.Done), float64(l.Found))
	text := percent(done) + " of what is found"
	if l.PagesPerSecNow > 0 && l.Pending > 0 {
		text += ", " + toGo(float64(l.Pending)/l.PagesPerSecNow) + " to go"
	}
	p.bar(rankFound, "Done", done, green, text)
	for _, u := range l.Limits {
		name, text := "Limit", ""
		switch u.Name {
		case "pages":
			text = humanize.Comma(int64(u.Used)) + " of " + humanize.Comma(int64(u.Limit)) + " pages"
		case "seconds":
			text = clock(u.Used) + " of " + clock(u.Limit)
		}
		if u.Left > 0 {
			text += ", " + toGo(u.Left) + " to go"
		}
		ink := green
		if share(u.Used, u.Limit) >= 0.8 {
			ink = yellow
		}
		p.bar(rankLimits, name, share(u.Used, u.Limit), ink, text)
	}
	p.blank()
}

func (p *picture) bar(rank int, name string, part float64, color ink, text string) {
	cells := min(40, max(5, (p.Width-labelWidth)/3))
	full, empty := "#", "-"
	if p.Unicode {
		full, empty = "█", "░"
	}
	done := int(part * float64(cells))
	p.add(rank, row{
		{faint, p.left(name, labelWidth)}, {color, strings.Repeat(full, done)},
		{faint, strings.Repeat(empty, cells-done)}, {plain, p.cut("  "+text, p.Width-labelWidth-cells)},
	})
}

// notes says whether the crawl is stopping, writing its outputs, waiting for work, or slowed down by the governor.
func (p *picture) notes(l *monitor.Live) {
	switch {
	case l.Phase == monitor.Stopping:
		p.note(rankNote, yellow, "Stopping: no new requests; those under way may finish. Ctrl-C leaves at once.")
	case l.Phase == monitor.Writing:
		p.note(rankNote, green, "Crawled. Writing the outputs...")
	case l.Waiting != "":
		p.note(rankNote, yellow, "Waiting for work... "+l.Waiting)
	case l.Workers.Limit < l.Workers.Most:
		p.note(rankNote, yellow, fmt.Sprintf("Commits are slow (%s): the governor lets %d of %d workers run.",
			milliseconds(l.CommitMS), l.Workers.Limit, l.Workers.Most))
	}
}

func (p *picture) note(rank int, color ink, text string) {
	for _, one := range wrap(text, p.Width) {
		p.add(rank, row{{color, one}})
	}
}

func (p *picture) footer(n Notes) {
	text := "Ctrl-C stops, twice at once.  Log: " + n.Log
	if n.Warnings > 0 {
		text = words.Count(n.Warnings, "warning") + ".  " + text
	}
	p.add(rankFooter, row{{faint, p.cut(text, p.Width)}})
}
