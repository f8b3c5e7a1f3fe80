package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// schedulesView is what the page shows.
type schedulesView struct {
	frame
	Rows   []service.Schedule
	Crawls []crawlRow // that can be visited again
	Form   scheduleForm
	Fault  *service.Error
}

// scheduleForm are the values of the form. With an ID it changes a schedule, but not what is crawled.
type scheduleForm struct{ ID, Name, When, Zone, Crawl, Starts string }

// input is what the form asks for.
func (f *scheduleForm) input() schedules.Input {
	in := schedules.Input{Name: &f.Name}
	if strings.HasPrefix(f.When, "@") || len(strings.Fields(f.When)) > 1 {
		in.Cron = &f.When
	} else {
		in.Interval = &f.When
	}
	if f.Zone != "" {
		in.Zone = &f.Zone
	}
	return in
}

// scheduleFormOf reads a form that was sent.
func scheduleFormOf(form url.Values) scheduleForm {
	get := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	return scheduleForm{get("id"), get("name"), get("when"), get("zone"), get("crawl"), form.Get("start_urls")}
}

// showSchedules shows the schedules of the account.
func showSchedules(q *request) error {
	return q.renderSchedules(http.StatusOK, scheduleForm{Crawl: q.r.URL.Query().Get("crawl")}, nil)
}

func (q *request) renderSchedules(status int, form scheduleForm, fault *service.Error) error {
	v := &schedulesView{frame: q.settingsFrame("schedules", "Schedules"), Form: form, Fault: fault}
	var err error
	if v.Rows, err = q.server.o.Schedules.List(q.r.Context(), q.caller.Account.ID); err != nil {
		return err
	}
	for _, s := range v.Rows {
		if fault == nil && s.ID == q.r.URL.Query().Get("edit") {
			v.Form = scheduleForm{ID: s.ID, Name: s.Name, When: cmp.Or(s.Cron, s.Interval), Zone: s.Zone}
		}
	}
	list, err := q.server.o.Service.Crawls.List(q.r.Context(), q.caller,
		service.CrawlFilter{Account: q.caller.Account.ID, States: []service.State{service.Complete, service.Partial},
			Limit: 100})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		v.Crawls = append(v.Crawls, rowOf(&v.frame, c))
	}
	return q.render(status, "schedules", v)
}

func createSchedule(q *request) error {
	form := scheduleFormOf(q.r.PostForm)
	form.ID = ""
	in := form.input()
	if starts := lines(form.Starts); len(starts) > 0 {
		in.Submission = &service.Submission{StartURLs: starts, Name: form.Name}
	}
	if form.Crawl != "" {
		in.Crawl = &form.Crawl
	}
	_, err := q.server.o.Schedules.Create(q.r.Context(), q.caller, in)
	return q.afterSchedule(form, err)
}

// editSchedule switches a schedule on or off, or changes its name and times.
func editSchedule(q *request) error {
	form := scheduleFormOf(q.r.PostForm)
	in := form.input()
	if text := q.r.PostForm.Get("enabled"); text != "" {
		in = schedules.Input{Enabled: new(text == "true")}
	}
	_, err := q.server.o.Schedules.Edit(q.r.Context(), q.caller, form.ID, in)
	return q.afterSchedule(form, err)
}

// afterSchedule shows the schedules after a form, or the form with its faults.
func (q *request) afterSchedule(form scheduleForm, err error) error {
	if fault, ok := errors.AsType[*service.Error](err); ok && fault.Code != service.ErrNotFound {
		return q.renderSchedules(fault.Code.Status(), form, fault)
	}
	return q.then("/settings/schedules", err)
}

func deleteSchedule(q *request) error {
	return q.then("/settings/schedules", q.server.o.Schedules.Delete(q.r.Context(), q.caller, q.r.PostForm.Get("id")))
}

// schedulePath is where a schedule for a crawl is made.
func (f frame) schedulePath(id string) string {
	return f.Base + "/settings/schedules?crawl=" + url.QueryEscape(id)
}
