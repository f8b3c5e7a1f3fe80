package api

import (
	"context"
	"net/http"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// scheduleRoutes are the routes of schedules.
type scheduleRoutes struct{ schedules *schedules.Schedules }

func (a scheduleRoutes) list(c *call) error {
	q := c.query()
	account := c.account(q)
	return listed(c, q, func(s service.Schedule) string { return s.ID }, func(ctx context.Context) ([]service.Schedule, error) { return a.schedules.List(ctx, account) })
}

func (a scheduleRoutes) create(c *call) error {
	var in schedules.Input
	if err := c.body(&in); err != nil {
		return err
	}
	s, err := a.schedules.Create(c.r.Context(), c.caller, in)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.link("/v1/schedules/"+s.ID))
	return c.json(http.StatusCreated, s)
}

func (a scheduleRoutes) get(c *call) error {
	return c.reply(a.schedules.Get(c.r.Context(), c.caller, c.id()))
}

func (a scheduleRoutes) edit(c *call) error {
	var in schedules.Input
	if err := c.body(&in); err != nil {
		return err
	}
	return c.reply(a.schedules.Edit(c.r.Context(), c.caller, c.id(), in))
}

func (a scheduleRoutes) delete(c *call) error {
	return c.noContent(a.schedules.Delete(c.r.Context(), c.caller, c.id()))
}

// hookRoutes are the routes of webhooks.
type hookRoutes struct{ hooks *hooks.Hooks }

func (a hookRoutes) list(c *call) error {
	q := c.query()
	account := c.account(q)
	return listed(c, q, func(w service.Webhook) string { return w.ID }, func(ctx context.Context) ([]service.Webhook, error) { return a.hooks.List(ctx, account) })
}

func (a hookRoutes) create(c *call) error {
	var in hooks.Input
	if err := c.body(&in); err != nil {
		return err
	}
	w, err := a.hooks.Create(c.r.Context(), c.caller, in)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.link("/v1/webhooks/"+w.ID))
	return c.json(http.StatusCreated, w)
}

func (a hookRoutes) get(c *call) error {
	return c.reply(a.hooks.Get(c.r.Context(), c.caller, c.id()))
}

func (a hookRoutes) edit(c *call) error {
	var in hooks.Input
	if err := c.body(&in); err != nil {
		return err
	}
	return c.reply(a.hooks.Edit(c.r.Context(), c.caller, c.id(), in))
}

func (a hookRoutes) delete(c *call) error {
	return c.noContent(a.hooks.Delete(c.r.Context(), c.caller, c.id()))
}

func (a hookRoutes) test(c *call) error {
	d, err := a.hooks.Test(c.r.Context(), c.caller, c.id())
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, d)
}

func (a hookRoutes) deliveries(c *call) error {
	q := c.query()
	cursor, limit := q.text("cursor"), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	return c.reply(a.hooks.Deliveries(c.r.Context(), c.caller, c.id(), cursor, limit))
}

func (a hookRoutes) redeliver(c *call) error {
	d, err := a.hooks.Redeliver(c.r.Context(), c.caller, c.id(), c.r.PathValue("delivery"))
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, d)
}

// hostRoutes are the routes of hosts.
type hostRoutes struct{ hosts *hosts.Hosts }

func (a hostRoutes) list(c *call) error {
	q := c.query()
	cursor, limit := q.text("cursor"), q.number("limit", 1, mostItems, someItems)
	if err := q.done(); err != nil {
		return err
	}
	return c.reply(a.hosts.List(c.r.Context(), cursor, limit))
}

func (a hostRoutes) get(c *call) error {
	h, err := a.hosts.Get(c.r.Context(), c.r.PathValue("host"))
	if err != nil {
		return err
	}
	blocked, err := c.server.service.Crawls.BlockedOn(c.r.Context(), c.caller, h.Host)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, hostAnswer{*h, blocked})
}

// hostAnswer is a host and the crawls that do not ask it any more.
type hostAnswer struct {
	hosts.Host
	Blocked []service.HostBlock `json:"blocked"`
}

func (a hostRoutes) deny(c *call) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := c.optionalBody(&in); err != nil {
		return err
	}
	return c.reply(a.hosts.Deny(c.r.Context(), c.caller, c.r.PathValue("host"), in.Reason))
}

func (a hostRoutes) allow(c *call) error {
	return c.reply(a.hosts.Allow(c.r.Context(), c.caller, c.r.PathValue("host")))
}
