package serve

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

// problemsOf reads the problems of the site from the report of the last run that ended.
func (c *call) problemsOf() ([]problems.Problem, error) {
	crawl, dir, err := c.dir()
	if err != nil {
		return nil, err
	}
	rep, err := report.Read(dir)
	if err != nil {
		return nil, err
	}
	if rep == nil {
		return nil, notThere(crawl, "report")
	}
	return rep.Problems, nil
}

// listProblems lists what was checked, without the pages.
func (c *call) listProblems() error {
	all, err := c.problemsOf()
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Cut += int64(len(all[i].Items))
		all[i].Items = []problems.Item{}
	}
	return items(c, all, nil)
}

func (c *call) getProblem() error {
	all, err := c.problemsOf()
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Code == c.r.PathValue("code") {
			if p.Items == nil {
				p.Items = []problems.Item{}
			}
			return c.json(http.StatusOK, p)
		}
	}
	return refuse(service.ErrNotFound, "there is no such problem; the list of problems names all codes")
}

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

func (c *call) showProblems(crawl *service.Crawl) error {
	rep, err := report.Read(c.Service.Crawls.DataDir(crawl.ID))
	if err != nil {
		return err
	}
	v := &problemsView{crawlFrame: c.crawlFrame(crawl, "problems", "Problems"), Report: rep}
	if rep != nil {
		v.add(rep)
	}
	return c.render(http.StatusOK, "problems", v)
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
