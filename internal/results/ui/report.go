package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// view is what the template shows.
type view struct {
	*report.Report
	found
	Policy                 string // Content-Security-Policy
	Style                  template.CSS
	Script                 template.JS
	Title, Verdict, Tone   string
	Messages               []message
	Numbers                []headline
	Outcomes               *Table
	Skipped, Traps         *Table // nil if there are none; so are the next three
	Sections               *Table
	Changes, ChangedFields *Table
	Charts                 []template.HTML
	Hosts                  []titled
	Settings, Starts       *Table
	Machines               *Table // nil for a crawl of one machine
}

// message is a list of errors or warnings of the crawl.
type message struct {
	Title string
	Texts []string
	Cut   int64
}

// headline is one of the large figures.
type headline struct{ Name, Value string }

// titled is a table with a heading.
type titled struct {
	Title string
	Table *Table
}

// Render writes the page of a report.
func Render(rep *report.Report) ([]byte, error) {
	set, err := Parse(files, "templates/report.tmpl")
	if err != nil {
		return nil, err
	}
	style, script := StyleSheet(), SortScript()
	v := &view{Report: rep, Style: template.CSS(style), Script: template.JS(script), Title: title(rep),
		found: findProblems(rep)}
	v.Policy = "default-src 'none'; style-src " + Source(style) + "; script-src " + Source(script) +
		"; base-uri 'none'; form-action 'none'"
	v.Verdict, v.Tone = Verdict(rep)
	for _, m := range []message{{Title: "Errors of the crawl", Texts: rep.Errors},
		{Title: "Warnings of the crawl", Texts: rep.Warnings}} {
		if shown := min(len(m.Texts), maxMessages); shown > 0 {
			v.Messages = append(v.Messages, message{m.Title, m.Texts[:shown], int64(len(m.Texts) - shown)})
		}
	}
	v.Numbers = numbers(rep)
	v.Outcomes = Counts("URLs by outcome", "Outcome", "URLs", rep.Outcomes, nil)
	if len(rep.SkippedLinks) > 0 {
		v.Skipped = Counts("Links that do not belong to the crawl, by reason", "Reason", "Links", rep.SkippedLinks, nil)
	}
	if len(rep.Traps) > 0 {
		v.Traps = Counts("URLs that were recognised as one of endlessly many, by kind", "Trap", "URLs", rep.Traps, nil)
	}
	v.Charts = Charts(rep)
	v.Sections = sections(rep)
	if len(rep.Changes) > 0 {
		v.Changes = Counts("URLs by what this generation found", "Change", "URLs", rep.Changes, nil)
	}
	if len(rep.ChangedFields) > 0 {
		v.ChangedFields = ChangedFields(rep)
	}
	v.Hosts = hosts(rep)
	v.Settings = settings(rep)
	if rep.Cluster != nil {
		v.Machines = machines(rep.Cluster)
	}
	v.Starts = &Table{Caption: "Start URLs", Columns: []Column{{Name: "URL", Class: "url"}},
		More: "report.json has all"}
	for _, u := range rep.StartURLs {
		v.Starts.Add(Link(u))
	}
	out := &bytes.Buffer{}
	if err := set.ExecuteTemplate(out, "report", v); err != nil {
		return nil, fmt.Errorf("make report.html: %w", err)
	}
	return out.Bytes(), nil
}

// maxMessages is how many errors and warnings are shown.
const maxMessages = 50

// Write writes report.html into a directory. A file of that name which Mapwright did not write is not replaced.
func Write(dir datadir.Dir, rep *report.Report) error {
	text, err := Render(rep)
	if err != nil {
		return err
	}
	return datadir.ReplaceFile(dir.ReportHTML(), datadir.Public, text)
}

// Rewrite makes report.html in the directory to, from the report.json in the data directory from. It reports whether
// there is a report.json.
func Rewrite(from, to datadir.Dir) (bool, error) {
	rep, err := report.Read(from)
	if rep == nil || err != nil {
		return false, err
	}
	return true, Write(to, rep)
}

// title names the site: the host of the first start URL.
func title(rep *report.Report) string {
	if len(rep.StartURLs) == 0 {
		return "Crawl report"
	}
	name := rep.StartURLs[0]
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		name = u.Host
	}
	if more := len(rep.StartURLs) - 1; more > 0 {
		return fmt.Sprintf("Crawl report: %s and %s more", name, humanize.Comma(int64(more)))
	}
	return "Crawl report: " + name
}

func numbers(rep *report.Report) []headline {
	all := []headline{
		{"URLs", humanize.Comma(rep.URLs)},
		{"Fetched", humanize.Comma(rep.Outcomes["ok"])},
		{"Indexable", humanize.Comma(rep.Indexable)},
		{"Not fetched yet", humanize.Comma(rep.Outcomes["pending"] + rep.Outcomes["host_blocked"])},
		{"Received", Size(rep.Bytes)},
	}
	if t := rep.ResponseTimes; t != nil {
		all = append(all, headline{"Median response", Millis(float64(t.P50))},
			headline{"95\u00A0% response", Millis(float64(t.P95))})
	}
	all = append(all, headline{"Crawl time", Seconds(rep.Elapsed)})
	if rep.Runs > 1 {
		all = append(all, headline{"Runs", humanize.Comma(int64(rep.Runs))})
	}
	all = append(all, headline{"Pages, last run", humanize.Comma(rep.Pages)})
	if rep.Pages > 0 && rep.CrawlSeconds >= 0.1 {
		all = append(all, headline{"Pages per second", Decimal(rep.PagesPerSec)})
	}
	return all
}

// Counts is a table of names and how many URLs or links each has, the largest first, with the shares of all of them.
// Address is where a name leads; nil if nowhere.
func Counts(caption, name, counted string, of map[string]int64, address func(name string) string) *Table {
	t := &Table{Caption: caption, Columns: []Column{{Name: name}, {Name: counted, Class: "num"},
		{Name: "Share", Class: "num"}}, More: "report.json has all"}
	whole := int64(0)
	for _, n := range of {
		whole += n
	}
	for _, key := range words.ByCount(of) {
		cell := Word(key)
		if address != nil {
			cell = Inside(key, address(key))
		}
		t.Add(cell, Number(of[key]), Share(of[key], whole))
	}
	return t
}

// ChangedFields is the table of what changed in a recrawl. A URL may have several changed fields, so that there are no
// shares.
func ChangedFields(rep *report.Report) *Table {
	t := &Table{Caption: "Changed URLs by what differs", Columns: []Column{{Name: "Field"},
		{Name: "URLs", Class: "num"}}}
	for _, field := range words.ByCount(rep.ChangedFields) {
		t.Add(Word(field), Number(rep.ChangedFields[field]))
	}
	return t
}

func sections(rep *report.Report) *Table {
	if rep.Figures.Sections == nil {
		return nil
	}
	t := &Table{Caption: "Sections by size", More: "sitemap.jsonl has every URL",
		Columns: []Column{{Name: "Section", Class: "url"}, {Name: "URLs", Class: "num"},
			{Name: "Indexable", Class: "num"}, {Name: "Bytes", Class: "num"}, {Name: "p50", Class: "num"},
			{Name: "p95", Class: "num"}}}
	for _, s := range rep.Figures.Sections.Items {
		t.Add(Link(s.Section), Number(s.URLs), Number(s.Indexable), Bytes(s.Bytes), quantile(s.P50),
			quantile(s.P95))
	}
	t.Cut += rep.Figures.Sections.Cut
	return t
}

// quantile is a cell with a time, or with nothing.
func quantile(ms *int64) Cell {
	if ms == nil {
		return Cell{Kind: "number", Text: "–", Key: "-1"}
	}
	return Time(*ms)
}

func hosts(rep *report.Report) []titled {
	var all []titled
	if len(rep.BlockedHosts) > 0 {
		t := &Table{Caption: "Hosts that were given up", Columns: []Column{{Name: "Host"},
			{Name: "URLs not fetched", Class: "num"}, {Name: "Why"}}}
		for _, h := range rep.BlockedHosts {
			t.Add(Text(h.Host), Number(h.Waiting), Text(h.Why))
		}
		all = append(all, titled{"Blocked hosts", t})
	}
	if len(rep.ThrottledHosts) > 0 {
		t := &Table{Caption: "Hosts that refused requests because there were too many",
			Columns: []Column{{Name: "Host"}, {Name: "Throttled URLs", Class: "num"}}}
		for _, h := range rep.ThrottledHosts {
			t.Add(Text(h.Host), Number(h.Throttled))
		}
		all = append(all, titled{"Throttled hosts", t})
	}
	if len(rep.SlowestHosts) > 0 {
		t := &Table{Caption: "Hosts by mean response time, the slowest first",
			Columns: []Column{{Name: "Host"}, {Name: "Answers", Class: "num"},
				{Name: "Mean response time", Class: "num"}}}
		for _, h := range rep.SlowestHosts {
			t.Add(Text(h.Host), Number(h.Pages), Time(h.MeanResponseMS))
		}
		all = append(all, titled{"Slowest hosts", t})
	}
	return all
}

func machines(c *report.Cluster) *Table {
	t := &Table{Caption: "Machines that worked on the crawl", More: "report.json has all", Columns: []Column{
		{Name: "Machine"}, {Name: "Pages", Class: "num"}, {Name: "Sessions", Class: "num"},
		{Name: "Partitions taken over", Class: "num"}, {Name: "Fenced", Class: "num"}, {Name: "End"},
	}}
	for i := range c.Machines {
		m, end := &c.Machines[i], "left"
		if m.Lost {
			end = "lost"
		}
		t.Add(Text(m.Name), Number(int64(m.Pages)), Number(int64(m.Sessions)), Number(int64(m.Takeovers)),
			Number(int64(m.Fenced)), Text(end))
	}
	return t
}

func settings(rep *report.Report) *Table {
	t := &Table{Caption: "Settings and limits", Columns: []Column{{Name: "Setting"}, {Name: "Value"}},
		More: "crawl.json has all"}
	for _, name := range slices.Sorted(maps.Keys(rep.Settings)) {
		value, err := json.Marshal(rep.Settings[name])
		if err != nil {
			value = []byte(fmt.Sprint(rep.Settings[name]))
		}
		t.Add(Word(name), Text(string(value)))
	}
	return t
}
