package serve

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
func (c *call) showSchedules() error {
	return c.renderSchedules(http.StatusOK, scheduleForm{Crawl: c.r.URL.Query().Get("crawl")}, nil)
}

func (c *call) renderSchedules(status int, form scheduleForm, fault *service.Error) error {
	v := &schedulesView{frame: c.settingsFrame("schedules", "Schedules"), Form: form, Fault: fault}
	var err error
	if v.Rows, err = c.Schedules.List(c.ctx, c.caller.Account.ID); err != nil {
		return err
	}
	for _, s := range v.Rows {
		if fault == nil && s.ID == c.r.URL.Query().Get("edit") {
			v.Form = scheduleForm{ID: s.ID, Name: s.Name, When: cmp.Or(s.Cron, s.Interval), Zone: s.Zone}
		}
	}
	list, err := c.Service.Crawls.List(c.ctx, c.caller,
		service.CrawlFilter{Account: c.caller.Account.ID, States: []service.State{service.Complete, service.Partial},
			Limit: 100})
	if err != nil {
		return err
	}
	for _, crawl := range list.Items {
		v.Crawls = append(v.Crawls, rowOf(&v.frame, crawl))
	}
	return c.render(status, "schedules", v)
}

func (c *call) postSchedule() error {
	form := scheduleFormOf(c.r.PostForm)
	form.ID = ""
	in := form.input()
	if starts := lines(form.Starts); len(starts) > 0 {
		in.Submission = &service.Submission{StartURLs: starts, Name: form.Name}
	}
	if form.Crawl != "" {
		in.Crawl = &form.Crawl
	}
	_, err := c.Schedules.Create(c.ctx, c.caller, in)
	return c.afterSchedule(form, err)
}

// postScheduleEdit switches a schedule on or off, or changes its name and times.
func (c *call) postScheduleEdit() error {
	form := scheduleFormOf(c.r.PostForm)
	in := form.input()
	if text := c.r.PostForm.Get("enabled"); text != "" {
		in = schedules.Input{Enabled: new(text == "true")}
	}
	_, err := c.Schedules.Edit(c.ctx, c.caller, form.ID, in)
	return c.afterSchedule(form, err)
}

// afterSchedule shows the schedules after a form, or the form with its faults.
func (c *call) afterSchedule(form scheduleForm, err error) error {
	if fault, ok := errors.AsType[*service.Error](err); ok && fault.Code != service.ErrNotFound {
		return c.renderSchedules(fault.Code.Status(), form, fault)
	}
	return c.then("/settings/schedules", err)
}

func (c *call) postScheduleDelete() error {
	err := c.Schedules.Delete(c.ctx, c.caller, c.r.PostForm.Get("id"))
	return c.then("/settings/schedules", err)
}

// schedulePath is where a schedule for a crawl is made.
func (f frame) schedulePath(id string) string {
	return f.Base + "/settings/schedules?crawl=" + url.QueryEscape(id)
}
