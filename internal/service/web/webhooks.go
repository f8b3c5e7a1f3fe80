package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
)

// webhooksView is what the page shows.
type webhooksView struct {
	frame
	Rows []service.Webhook
	Made *service.Webhook // just made: its secret is shown once
	Log  *deliveryLog     // of one of them; nil if none is asked for
	Form *webhookForm     // of a new one, or of one to be changed
}

// webhookForm is the form that makes or changes a webhook.
type webhookForm struct {
	ID      string // empty if it is to be made
	URL     string
	Events  []service.EventType // that are ticked
	All     []service.EventType
	Private bool // private addresses are allowed
	Fault   *service.Error
}

// Ticked says whether the webhook is told of an event.
func (f *webhookForm) Ticked(e service.EventType) bool { return slices.Contains(f.Events, e) }

// FaultsOf are the faults of a field.
func (f *webhookForm) FaultsOf(field string) []string {
	if f.Fault == nil {
		return nil
	}
	return faultsOf(f.Fault.Fields, field)
}

// faultsOf are the texts of the faults of a field.
func faultsOf(faults []service.FieldError, field string) (all []string) {
	for _, fault := range faults {
		if fault.Field == field {
			all = append(all, fault.Detail)
		}
	}
	return all
}

// input is what a form that was sent asks for.
func (f *webhookForm) input(admin bool) hooks.Input {
	in := hooks.Input{URL: &f.URL, Events: &f.Events}
	if admin {
		in.AllowPrivate = &f.Private
	}
	return in
}

// webhookFormOf reads a form that was sent.
func webhookFormOf(form url.Values) *webhookForm {
	f := &webhookForm{ID: form.Get("id"), URL: strings.TrimSpace(form.Get("url")), Events: []service.EventType{},
		Private: form.Get("allow_private") != ""}
	for _, name := range form["events"] {
		f.Events = append(f.Events, service.EventType(name))
	}
	return f
}

// deliveryLog are the last deliveries of a webhook.
type deliveryLog struct {
	Webhook string
	Rows    []deliveryRow
}

// deliveryRow is a delivery.
type deliveryRow struct {
	service.Delivery
	Badge ui.Cell
	Again string // what the button says by which it is sent
}

// showWebhooks shows the webhooks of the account.
func showWebhooks(q *request) error { return q.renderWebhooks(http.StatusOK, &webhooksView{}) }

const shownDeliveries = 50

func (q *request) renderWebhooks(status int, v *webhooksView) (err error) {
	v.frame = q.settingsFrame("webhooks", "Webhooks")
	if v.Rows, err = q.server.o.Hooks.List(q.r.Context(), q.caller.Account.ID); err != nil {
		return err
	}
	if v.Form == nil {
		v.Form = &webhookForm{}
		at := slices.IndexFunc(v.Rows, func(w service.Webhook) bool { return w.ID == q.r.URL.Query().Get("edit") })
		if at >= 0 {
			w := &v.Rows[at]
			v.Form = &webhookForm{ID: w.ID, URL: w.URL, Events: w.Events, Private: w.AllowPrivate}
		}
	}
	v.Form.All = hooks.EventTypes()
	if id := q.r.URL.Query().Get("log"); id != "" {
		list, err := q.server.o.Hooks.Deliveries(q.r.Context(), q.caller, id, "", shownDeliveries)
		if err != nil {
			return err
		}
		v.Log = &deliveryLog{Webhook: id}
		for _, d := range list.Items {
			tone := map[service.DeliveryState]string{service.Delivered: "good", service.DeliveryFailed: "bad"}[d.State]
			again := "Send again"
			if d.State == service.DeliveryPending {
				again = "Send now"
			}
			v.Log.Rows = append(v.Log.Rows, deliveryRow{d, ui.Badge(string(d.State), tone, 0), again})
		}
	}
	return q.render(status, "webhooks", v)
}

func createWebhook(q *request) error {
	form := webhookFormOf(q.r.PostForm)
	form.ID = ""
	made, err := q.server.o.Hooks.Create(q.r.Context(), q.caller, form.input(q.caller.Has(service.ScopeAdmin)))
	if err != nil {
		return q.webhookFault(form, err)
	}
	return q.renderWebhooks(http.StatusOK, &webhooksView{Made: made})
}

// editWebhook switches a webhook on or off, or changes its address and events.
func editWebhook(q *request) error {
	form := webhookFormOf(q.r.PostForm)
	in := form.input(q.caller.Has(service.ScopeAdmin))
	if text := q.r.PostForm.Get("enabled"); text != "" {
		in = hooks.Input{Enabled: new(text == "true")}
	}
	if _, err := q.server.o.Hooks.Edit(q.r.Context(), q.caller, form.ID, in); err != nil {
		return q.webhookFault(form, err)
	}
	return q.to("/settings/webhooks")
}

// webhookFault shows a form again whose fields have faults.
func (q *request) webhookFault(form *webhookForm, err error) error {
	fault, ok := errors.AsType[*service.Error](err)
	if !ok || len(fault.Fields) == 0 {
		return err
	}
	form.Fault = fault
	return q.renderWebhooks(fault.Code.Status(), &webhooksView{Form: form})
}

func testWebhook(q *request) error {
	id := q.r.PostForm.Get("id")
	_, err := q.server.o.Hooks.Test(q.r.Context(), q.caller, id)
	return q.then("/settings/webhooks?log="+url.QueryEscape(id)+"#log", err)
}

// redeliver sends a delivery again.
func redeliver(q *request) error {
	id := q.r.PostForm.Get("id")
	_, err := q.server.o.Hooks.Redeliver(q.r.Context(), q.caller, id, q.r.PostForm.Get("delivery"))
	return q.then("/settings/webhooks?log="+url.QueryEscape(id)+"#log", err)
}

func deleteWebhook(q *request) error {
	return q.then("/settings/webhooks", q.server.o.Hooks.Delete(q.r.Context(), q.caller, q.r.PostForm.Get("id")))
}

// hostsView is what the page shows.
type hostsView struct {
	frame
	Rows  []hostRow
	Next  string
	Fault *service.Error
}

// hostRow is a host.
type hostRow struct {
	*hosts.Host
	Delay, Rests string
}

const shownHosts = 100

// showHosts shows what was learned of hosts. It is for admins, because hosts tell what other accounts crawl.
func showHosts(q *request) error { return q.renderHosts(http.StatusOK, nil) }

func (q *request) renderHosts(status int, fault *service.Error) error {
	if err := q.admin(); err != nil {
		return err
	}
	v := &hostsView{frame: q.settingsFrame("hosts", "Hosts"), Fault: fault}
	list, err := q.server.o.Hosts.List(q.r.Context(), q.r.URL.Query().Get("cursor"), shownHosts)
	if err != nil {
		return err
	}
	for _, h := range list.Items {
		row := hostRow{Host: h, Delay: ui.Millis(float64(time.Duration(h.Pace.Delay).Milliseconds()))}
		switch {
		case !h.Pace.RestUntil.IsZero():
			row.Rests = ui.When(h.Pace.RestUntil)
		case !h.Pace.Backoff.IsZero():
			row.Rests = "failures, " + ui.When(h.Pace.Backoff)
		}
		v.Rows = append(v.Rows, row)
	}
	if list.NextCursor != "" {
		v.Next = v.Base + "/settings/hosts?cursor=" + url.QueryEscape(list.NextCursor)
	}
	return q.render(status, "hosts-page", v)
}

// changeHost denies a host, or allows it again.
func changeHost(q *request) (err error) {
	if err := q.admin(); err != nil {
		return err
	}
	name := strings.TrimSpace(q.r.PostForm.Get("host"))
	if deny, _ := strconv.ParseBool(q.r.PostForm.Get("deny")); deny {
		_, err = q.server.o.Hosts.Deny(q.r.Context(), q.caller, name, strings.TrimSpace(q.r.PostForm.Get("reason")))
	} else {
		_, err = q.server.o.Hosts.Allow(q.r.Context(), q.caller, name)
	}
	if fault, ok := errors.AsType[*service.Error](err); ok {
		return q.renderHosts(fault.Code.Status(), fault)
	}
	return q.then("/settings/hosts", err)
}
