package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// schedulesScreen shows and changes the schedules of the account.
type schedulesScreen struct{}

// schedulesView is what the page shows.
type schedulesView struct {
	frame
	Rows   []service.Schedule
	Crawls []endedCrawl // that can be visited again
	Form   scheduleForm
	Fault  *service.Error
}

// endedCrawl is a crawl in a list of choices.
type endedCrawl struct {
	ID, Label string
	At        page.Time
}

// scheduleForm are the values of the form.
type scheduleForm struct{ Name, When, Zone, Crawl, Starts string }

func (schedulesScreen) show(q *request) error {
	return q.showSchedules(http.StatusOK, scheduleForm{Crawl: q.r.URL.Query().Get("crawl")}, nil)
}

func (q *request) showSchedules(status int, form scheduleForm, fault *service.Error) error {
	v := &schedulesView{frame: q.settingsFrame("schedules", "Schedules"), Form: form, Fault: fault}
	var err error
	if v.Rows, err = q.server.o.Schedules.List(q.r.Context(), q.caller.Account.ID); err != nil {
		return err
	}
	list, err := q.server.o.Crawls.List(q.r.Context(), q.caller, service.CrawlFilter{Account: q.caller.Account.ID, States: []service.State{service.Complete, service.Partial}, Limit: 100})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		v.Crawls = append(v.Crawls, endedCrawl{c.ID, label(c), lastAt(c)})
	}
	return q.render(status, "schedules", v)
}

func (schedulesScreen) create(q *request) error {
	get := func(name string) string { return strings.TrimSpace(q.r.PostForm.Get(name)) }
	form := scheduleForm{get("name"), get("when"), get("zone"), get("crawl"), q.r.PostForm.Get("start_urls")}
	in := schedules.Input{Name: &form.Name}
	if strings.HasPrefix(form.When, "@") || len(strings.Fields(form.When)) > 1 {
		in.Cron = &form.When
	} else {
		in.Interval = &form.When
	}
	if form.Zone != "" {
		in.Zone = &form.Zone
	}
	if starts := lines(form.Starts); len(starts) > 0 {
		in.Submission = &service.Submission{StartURLs: starts, Name: form.Name}
	}
	if form.Crawl != "" {
		in.Crawl = &form.Crawl
	}
	_, err := q.server.o.Schedules.Create(q.r.Context(), q.caller, in)
	if fault, ok := errors.AsType[*service.Error](err); ok {
		return q.showSchedules(fault.Code.Status(), form, fault)
	}
	if err != nil {
		return err
	}
	return q.to("/settings/schedules")
}

// edit switches a schedule on or off.
func (schedulesScreen) edit(q *request) error {
	enabled := q.r.PostForm.Get("enabled") == "true"
	if _, err := q.server.o.Schedules.Edit(q.r.Context(), q.caller, q.r.PostForm.Get("id"), schedules.Input{Enabled: &enabled}); err != nil {
		return err
	}
	return q.to("/settings/schedules")
}

func (schedulesScreen) delete(q *request) error {
	if err := q.server.o.Schedules.Delete(q.r.Context(), q.caller, q.r.PostForm.Get("id")); err != nil {
		return err
	}
	return q.to("/settings/schedules")
}

// schedulePath is where a schedule for a crawl is made.
func (f frame) schedulePath(id string) string {
	return f.Base + "/settings/schedules?crawl=" + url.QueryEscape(id)
}
