package api

import (
	"net/http"

	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/service"
)

// problemsOf reads the problems of the site from the report of the last run that ended.
func (a resultRoutes) problemsOf(c *call) ([]problems.Problem, error) {
	crawl, dir, err := a.dir(c)
	if err != nil {
		return nil, err
	}
	rep, err := report.Read(dir)
	if err != nil {
		return nil, err
	}
	if rep == nil {
		return nil, a.missing(crawl, "report")
	}
	return rep.Problems, nil
}

// problems lists what was checked, without the pages.
func (a resultRoutes) problems(c *call) error {
	all, err := a.problemsOf(c)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Cut += int64(len(all[i].Items))
		all[i].Items = []problems.Item{}
	}
	return items(c, all, nil)
}

func (a resultRoutes) problem(c *call) error {
	all, err := a.problemsOf(c)
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
