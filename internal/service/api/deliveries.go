package api

import (
	"net/http"

	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
)

// deliveryRoutes are the routes of deliveries of webhooks.
type deliveryRoutes struct{ hooks *hooks.Hooks }

func (a deliveryRoutes) test(c *call) error {
	return c.begun(a.hooks.Test(c.r.Context(), c.caller, c.id()))
}

func (a deliveryRoutes) again(c *call) error {
	return c.begun(a.hooks.Redeliver(c.r.Context(), c.caller, c.id(), c.r.PathValue("delivery")))
}

// begun answers with a delivery that will be made, unless there is an error.
func (c *call) begun(d *service.Delivery, err error) error {
	if err != nil {
		return err
	}
	return c.json(http.StatusAccepted, d)
}

func (a deliveryRoutes) list(c *call) error {
	cursor, limit, err := c.place()
	if err != nil {
		return err
	}
	list, err := a.hooks.Deliveries(c.r.Context(), c.caller, c.id(), cursor, limit)
	list.NextCursor = cursorAt(list.NextCursor)
	return c.reply(list, err)
}

// hostRoutes are the routes of hosts.
type hostRoutes struct{ hosts *hosts.Hosts }

func (a hostRoutes) list(c *call) error {
	cursor, limit, err := c.place()
	if err != nil {
		return err
	}
	list, err := a.hosts.List(c.r.Context(), cursor, limit)
	list.NextCursor = cursorAt(list.NextCursor)
	return c.reply(list, err)
}

func (a hostRoutes) get(c *call) error {
	h, err := a.hosts.Get(c.r.Context(), c.r.PathValue("host"))
	if err != nil {
		return err
	}
	if !c.caller.Has(service.ScopeAdmin) {
		h.Pace, h.Crawls = nil, nil
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
