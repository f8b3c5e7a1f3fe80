package serve

import (
	"fmt"
	"slices"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/service"
)

func (c *call) health() error { return c.text("ok\n") }

// ready says whether the server takes crawls.
func (c *call) ready() error {
	select {
	case <-c.draining:
		return refuse(service.ErrUnavailable, "the server is shutting down")
	default:
		return c.text("ready\n")
	}
}

func (c *call) text(text string) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.Header().Set("Cache-Control", "no-store")
	_, _ = c.w.Write([]byte(text)) // a client that has gone
	return nil
}

func (c *call) getDocument() error {
	document, err := c.document()
	if err != nil {
		return err
	}
	h, text := c.w.Header(), document.text
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	if takesGzip(c.r) {
		h.Set("Content-Encoding", "gzip")
		text = document.short
	}
	_, _ = c.w.Write(text) // a client that has gone
	return nil
}

// listSettings lists the settings that a submission of the caller may have. Those of the operator are in no submission,
// and only an admin is told of them.
func (c *call) listSettings() error {
	all := config.Info(config.Defaults(config.Polite))
	if !c.caller.Has(service.ScopeAdmin) {
		all = slices.DeleteFunc(all, func(i config.SettingInfo) bool { return i.Permission == config.Operator })
	}
	return items(c, all, nil)
}

// getErrorKind is the page to which the type of an error leads.
func (c *call) getErrorKind() error {
	code := service.ErrorCode(c.r.PathValue("code"))
	if code.Title() == "" {
		return refuse(service.ErrNotFound, "there is no such kind of error")
	}
	return c.text(fmt.Sprintf("%s\n\nHTTP status %d, type %s/problems/%s\n\n%s\n",
		code.Title(), code.Status(), c.base, code, code.Explanation()))
}

func (c *call) getMetrics() error {
	c.metrics.ServeHTTP(c.w, c.r)
	return nil
}
