package serve

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hosts"
)

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
func (c *call) showHosts() error { return c.renderHosts(http.StatusOK, nil) }

func (c *call) renderHosts(status int, fault *service.Error) error {
	v := &hostsView{frame: c.settingsFrame("hosts", "Hosts"), Fault: fault}
	list, err := c.Hosts.List(c.ctx, c.r.URL.Query().Get("cursor"), shownHosts)
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
	return c.render(status, "hosts-page", v)
}

// postHost denies a host, or allows it again.
func (c *call) postHost() (err error) {
	name := strings.TrimSpace(c.r.PostForm.Get("host"))
	if deny, _ := strconv.ParseBool(c.r.PostForm.Get("deny")); deny {
		_, err = c.Hosts.Deny(c.ctx, c.caller, name, strings.TrimSpace(c.r.PostForm.Get("reason")))
	} else {
		_, err = c.Hosts.Allow(c.ctx, c.caller, name)
	}
	if fault, ok := errors.AsType[*service.Error](err); ok {
		return c.renderHosts(fault.Code.Status(), fault)
	}
	return c.then("/settings/hosts", err)
}

func (c *call) listHosts() error {
	cursor, limit, err := c.place()
	if err != nil {
		return err
	}
	list, err := c.Hosts.List(c.ctx, cursor, limit)
	list.NextCursor = cursorAt(list.NextCursor)
	return c.reply(list, err)
}

func (c *call) getHost() error {
	h, err := c.Hosts.Get(c.ctx, c.r.PathValue("host"))
	if err != nil {
		return err
	}
	if !c.caller.Has(service.ScopeAdmin) {
		h.Pace, h.Crawls = nil, nil
	}
	blocked, err := c.Service.Crawls.BlockedOn(c.ctx, c.caller, h.Host)
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

func (c *call) denyHost() error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := c.optionalBody(&in); err != nil {
		return err
	}
	return c.reply(c.Hosts.Deny(c.ctx, c.caller, c.r.PathValue("host"), in.Reason))
}

func (c *call) allowHost() error {
	return c.reply(c.Hosts.Allow(c.ctx, c.caller, c.r.PathValue("host")))
}
