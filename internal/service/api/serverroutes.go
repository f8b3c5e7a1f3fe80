package api

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/service"
)

// serverRoutes are the routes about the server itself.
type serverRoutes struct {
	server *Server
	text   func() ([]byte, error) // makes the OpenAPI document at the first call
}

func newServerRoutes(s *Server) serverRoutes {
	return serverRoutes{s, sync.OnceValues(func() ([]byte, error) { return Document(s.base) })}
}

func (a serverRoutes) health(c *call) error { return c.text("ok\n") }

// ready says whether the server takes crawls.
func (a serverRoutes) ready(c *call) error {
	select {
	case <-a.server.draining:
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

func (a serverRoutes) document(c *call) error {
	text, err := a.text()
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.send(http.StatusOK, text)
	return nil
}

// settings lists the settings that a submission of the caller may have. Those of the operator are in no submission, and
// only an admin is told of them.
func (a serverRoutes) settings(c *call) error {
	all := config.Info(config.Defaults(config.Polite))
	if !c.caller.Has(service.ScopeAdmin) {
		all = slices.DeleteFunc(all, func(i config.SettingInfo) bool { return i.Permission == config.Operator })
	}
	return items(c, all, nil)
}

// problem is the page to which the type of an error leads.
func (a serverRoutes) problem(c *call) error {
	code := service.ErrorCode(c.r.PathValue("code"))
	if code.Title() == "" {
		return refuse(service.ErrNotFound, "there is no such kind of error")
	}
	return c.text(fmt.Sprintf("%s\n\nHTTP status %d, type %s/problems/%s\n\n%s\n",
		code.Title(), code.Status(), a.server.base, code, code.Explanation()))
}

func (a serverRoutes) metrics(c *call) error {
	a.server.metrics.ServeHTTP(c.w, c.r)
	return nil
}
