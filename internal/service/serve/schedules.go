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
	Next   string            // address of the next part
	Crawls []crawlRow        // that can be visited again
	Form   map[string]string // its values
	Fault  *service.Error
}

// scheduleForm reads the form that was sent. With an id it changes a schedule, but not what is crawled.
func (c *call) scheduleForm() map[string]string {
	form := map[string]string{}
	for _, name := range []string{"id", "name", "when", "zone", "crawl", "start_urls"} {
		form[name] = strings.TrimSpace(c.r.PostForm.Get(name))
	}
	return form
}

// scheduleInput is what the form asks for.
func scheduleInput(form map[string]string) schedules.Input {
	in := schedules.Input{Name: new(form["name"])}
	if when := form["when"]; strings.HasPrefix(when, "@") || len(strings.Fields(when)) > 1 {
		in.Cron = &when
	} else {
		in.Interval = &when
	}
	if zone := form["zone"]; zone != "" {
		in.Zone = &zone
	}
	return in
}

// listSchedules lists schedules of the account or, for an admin, of another.
func (c *call) listSchedules() error {
	q := c.query()
	account, cursor, limit := c.account(q), q.cursor(), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	list, err := c.Schedules.List(c.ctx, account, cursor, limit)
	list.NextCursor = cursorAt(list.NextCursor)
	return c.reply(list, err)
}

// showSchedules shows the schedules of the account.
func (c *call) showSchedules() error {
	return c.renderSchedules(http.StatusOK, map[string]string{"crawl": c.r.URL.Query().Get("crawl")}, nil)
}

func (c *call) renderSchedules(status int, form map[string]string, fault *service.Error) error {
	v := &schedulesView{frame: c.settingsFrame("schedules", "Schedules"), Form: form, Fault: fault}
	rows, err := c.Schedules.List(c.ctx, c.caller.Account.ID, c.r.URL.Query().Get("cursor"), someItems)
	if err != nil {
		return err
	}
	if v.Rows = rows.Items; rows.NextCursor != "" {
		v.Next = c.link("/settings/schedules?cursor=" + url.QueryEscape(rows.NextCursor))
	}
	// one that is gone leaves the form for a new one
	if s, err := c.Schedules.Get(c.ctx, c.caller, c.r.URL.Query().Get("edit")); err == nil && fault == nil {
		v.Form = map[string]string{"id": s.ID, "name": s.Name, "when": cmp.Or(s.Cron, s.Interval), "zone": s.Zone}
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
	form := c.scheduleForm()
	form["id"] = ""
	in := scheduleInput(form)
	if starts := lines(form["start_urls"]); len(starts) > 0 {
		in.Submission = &service.Submission{StartURLs: starts, Name: form["name"]}
	}
	if crawl := form["crawl"]; crawl != "" {
		in.Crawl = &crawl
	}
	_, err := c.Schedules.Create(c.ctx, c.caller, in)
	return c.afterSchedule(form, err)
}

// postScheduleEdit switches a schedule on or off, or changes its name and times.
func (c *call) postScheduleEdit() error {
	form := c.scheduleForm()
	in := scheduleInput(form)
	if text := c.r.PostForm.Get("enabled"); text != "" {
		in = schedules.Input{Enabled: new(text == "true")}
	}
	_, err := c.Schedules.Edit(c.ctx, c.caller, form["id"], in)
	return c.afterSchedule(form, err)
}

// afterSchedule shows the schedules after a form, or the form with its faults.
func (c *call) afterSchedule(form map[string]string, err error) error {
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
