package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

// problemsView is what the page of problems shows.
type problemsView struct {
	crawlFrame
	Report     *report.Report // nil if there is none yet
	Verdict    string
	Tone       string
	Severities []severity
	NotChecked []problemRow
	None       []problemRow
}

// severity is the problems of one severity that were found.
type severity struct {
	Title string
	Badge ui.Cell // how many kinds there are
	Rows  []problemRow
}

// problemRow is one problem.
type problemRow struct {
	problems.Problem
	Title string
	Share string // of all URLs
	Pages string // address of the list of its pages
	Table *ui.Table
}

func showProblems(q *request, c *service.Crawl) error {
	rep, err := report.Read(q.server.o.Runs.DataDir(c.ID))
	if err != nil {
		return err
	}
	v := &problemsView{crawlFrame: q.crawlFrame(c, "problems", "Problems"), Report: rep}
	if rep != nil {
		v.add(rep)
	}
	return q.render(http.StatusOK, "problems", v)
}

func (v *problemsView) add(rep *report.Report) {
	v.Verdict, v.Tone = ui.Verdict(rep)
	found := map[string][]problemRow{}
	for i := range rep.Problems {
		p := &rep.Problems[i]
		row := problemRow{Problem: *p, Title: ui.Heading(p.Code),
			Share: ui.Percent(float64(p.Count), float64(rep.URLs)), Pages: v.Path + "/pages?problem=" +
				url.QueryEscape(p.Code)}
		switch p.Result {
		case problems.Found:
			row.Table = ui.Items(p, "The first pages of “"+row.Title+"”", "the list of its pages has all",
				v.PagePath)
			found[p.Severity] = append(found[p.Severity], row)
		case problems.NotChecked:
			v.NotChecked = append(v.NotChecked, row)
		default:
			v.None = append(v.None, row)
		}
	}
	titles := map[string]string{problems.Error: "Errors", problems.Warning: "Warnings", problems.Notice: "Notices"}
	for _, name := range problems.Severities() {
		if rows := found[name]; len(rows) > 0 {
			slices.SortStableFunc(rows, func(a, b problemRow) int { return int(min(1, max(-1, b.Count-a.Count))) })
			v.Severities = append(v.Severities, severity{titles[name],
				ui.SeverityBadge(name, words.Count(int64(len(rows)), "kind")), rows})
		}
	}
}

// changesView is what the page of changes shows.
type changesView struct {
	crawlFrame
	Change      string // the filter
	Generation  string // likewise
	Changes     []string
	Generations []string
	Counts      *ui.Table // of the last recrawl
	Fields      *ui.Table
	Rows        []changeRow
	Next, First string
	None        bool // there was no recrawl yet
}

// changeRow is a page that changed.
type changeRow struct {
	URL, Change string
	Generation  uint32
	CheckedAt   page.Time
	Fields      []changedField
}

// changedField is a fact before and after.
type changedField struct{ Name, Before, After string }

const shownChanges = 100

func showChanges(q *request, c *service.Crawl) error {
	get := q.r.URL.Query()
	v := &changesView{crawlFrame: q.crawlFrame(c, "changes", "Changes"), Change: get.Get("change"),
		Generation: get.Get("generation")}
	for _, change := range page.Changes() {
		if change != page.Unchanged {
			v.Changes = append(v.Changes, change.String())
		}
	}
	for g := c.Generation; g > 0 && len(v.Generations) < 50; g-- {
		v.Generations = append(v.Generations, strconv.FormatUint(uint64(g), 10))
	}
	if v.Change != "" && !slices.Contains(v.Changes, v.Change) {
		return &service.Error{Code: service.ErrInvalid, Detail: "There is no such change."}
	}
	dir := q.server.o.Runs.DataDir(c.ID)
	rep, err := report.Read(dir)
	if err != nil {
		return err
	}
	if rep != nil && len(rep.Changes) > 0 {
		v.Counts = ui.Counts("What the last recrawl found", "Change", "URLs", rep.Changes,
			func(name string) string { return v.Path + "/pages?change=" + url.QueryEscape(name) })
		if len(rep.ChangedFields) > 0 {
			v.Fields = ui.ChangedFields(rep)
		}
	}
	f, err := os.Open(dir.Changes())
	if missing(err) {
		v.None = true
		return q.render(http.StatusOK, "changes", v)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := v.read(q.r.Context(), f, get.Get("from")); err != nil {
		return err
	}
	return q.render(http.StatusOK, "changes", v)
}

// read reads the next changes of the file from a place on.
func (v *changesView) read(ctx context.Context, f io.ReadSeeker, from string) error {
	at, _ := strconv.ParseInt(from, 10, 64) // what is no number is the beginning
	at = max(at, 0)
	if at > 0 {
		v.First = v.address("")
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	for in := bufio.NewReaderSize(f, 256<<10); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		err = cmp.Or(err, ctx.Err()) // the client may have gone
		if err != nil {
			return err
		}
		var l recrawl.Line
		if json.Unmarshal(bytes.TrimSpace(text), &l) == nil && (v.Change == "" || l.Change == v.Change) &&
			(v.Generation == "" || strconv.FormatUint(uint64(l.Generation), 10) == v.Generation) {
			if len(v.Rows) == shownChanges {
				v.Next = v.address(strconv.FormatInt(at, 10))
				return nil
			}
			v.Rows = append(v.Rows, v.row(&l))
		}
		at += int64(len(text))
	}
}

func (v *changesView) row(l *recrawl.Line) changeRow {
	row := changeRow{URL: l.URL, Change: l.Change, Generation: l.Generation, CheckedAt: l.CheckedAt}
	for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
		row.Fields = append(row.Fields, changedField{strings.ReplaceAll(name, "_", " "),
			settingText(l.Fields[name].Before), settingText(l.Fields[name].After)})
	}
	return row
}

func (v *changesView) address(from string) string {
	return v.Path + "/changes?" + encode(map[string]string{"change": v.Change, "generation": v.Generation,
		"from": from})
}
