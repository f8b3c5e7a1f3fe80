package serve

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
)

// webhooksView is what the page shows.
type webhooksView struct {
	frame
	Rows []service.Webhook
	Made *service.Webhook // just made: its secret is shown once
	Log  []deliveryRow    // the last deliveries of one of them; nil if none is asked for
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

// deliveryRow is a delivery.
type deliveryRow struct {
	service.Delivery
	Badge ui.Cell
	Again string // what the button says by which it is sent
}

// showWebhooks shows the webhooks of the account.
func (c *call) showWebhooks() error { return c.renderWebhooks(http.StatusOK, &webhooksView{}) }

const shownDeliveries = 50

func (c *call) renderWebhooks(status int, v *webhooksView) (err error) {
	v.frame = c.settingsFrame("webhooks", "Webhooks")
	if v.Rows, err = c.Hooks.List(c.ctx, c.caller.Account.ID); err != nil {
		return err
	}
	if v.Form == nil {
		v.Form = &webhookForm{}
		at := slices.IndexFunc(v.Rows, func(w service.Webhook) bool { return w.ID == c.r.URL.Query().Get("edit") })
		if at >= 0 {
			w := &v.Rows[at]
			v.Form = &webhookForm{ID: w.ID, URL: w.URL, Events: w.Events, Private: w.AllowPrivate}
		}
	}
	v.Form.All = hooks.EventTypes()
	if id := c.r.URL.Query().Get("log"); id != "" {
		list, err := c.Hooks.Deliveries(c.ctx, c.caller, id, "", shownDeliveries)
		if err != nil {
			return err
		}
		v.Log = []deliveryRow{}
		for _, d := range list.Items {
			tone := map[service.DeliveryState]string{service.Delivered: "good", service.DeliveryFailed: "bad"}[d.State]
			again := "Send again"
			if d.State == service.DeliveryPending {
				again = "Send now"
			}
			v.Log = append(v.Log, deliveryRow{d, ui.Badge(string(d.State), tone, 0), again})
		}
	}
	return c.render(status, "webhooks", v)
}

func (c *call) postWebhook() error {
	form := webhookFormOf(c.r.PostForm)
	form.ID = ""
	made, err := c.Hooks.Create(c.ctx, c.caller, form.input(c.caller.Has(service.ScopeAdmin)))
	if err != nil {
		return c.webhookFault(form, err)
	}
	return c.renderWebhooks(http.StatusOK, &webhooksView{Made: made})
}

// postWebhookEdit switches a webhook on or off, or changes its address and events.
func (c *call) postWebhookEdit() error {
	form := webhookFormOf(c.r.PostForm)
	in := form.input(c.caller.Has(service.ScopeAdmin))
	if text := c.r.PostForm.Get("enabled"); text != "" {
		in = hooks.Input{Enabled: new(text == "true")}
	}
	if _, err := c.Hooks.Edit(c.ctx, c.caller, form.ID, in); err != nil {
		return c.webhookFault(form, err)
	}
	return c.to("/settings/webhooks")
}

// webhookFault shows a form again whose fields have faults.
func (c *call) webhookFault(form *webhookForm, err error) error {
	fault, ok := errors.AsType[*service.Error](err)
	if !ok || len(fault.Fields) == 0 {
		return err
	}
	form.Fault = fault
	return c.renderWebhooks(fault.Code.Status(), &webhooksView{Form: form})
}

func (c *call) postWebhookTest() error {
	id := c.r.PostForm.Get("id")
	_, err := c.Hooks.Test(c.ctx, c.caller, id)
	return c.then("/settings/webhooks?log="+url.QueryEscape(id)+"#log", err)
}

// postRedeliver sends a delivery again.
func (c *call) postRedeliver() error {
	id := c.r.PostForm.Get("id")
	_, err := c.Hooks.Redeliver(c.ctx, c.caller, id, c.r.PostForm.Get("delivery"))
	return c.then("/settings/webhooks?log="+url.QueryEscape(id)+"#log", err)
}

func (c *call) postWebhookDelete() error {
	return c.then("/settings/webhooks", c.Hooks.Delete(c.ctx, c.caller, c.r.PostForm.Get("id")))
}

func (c *call) testWebhook() error {
	return c.begun(c.Hooks.Test(c.ctx, c.caller, c.id()))
}

func (c *call) redeliver() error {
	return c.begun(c.Hooks.Redeliver(c.ctx, c.caller, c.id(), c.r.PathValue("delivery")))
}

// begun answers with a delivery that will be made, unless there is an error.
func (c *call) begun(d *service.Delivery, err error) error {
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, d)
}

func (c *call) listDeliveries() error {
	cursor, limit, err := c.place()
	if err != nil {
		return err
	}
	list, err := c.Hooks.Deliveries(c.ctx, c.caller, c.id(), cursor, limit)
	list.NextCursor = cursorAt(list.NextCursor)
	return c.reply(list, err)
}
