package serve

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
)

// pagePolicy lets pages use what this server sends and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// failPage answers with a page that says what went wrong. Without a session it leads to the login page.
func (c *call) failPage(err error) {
	known, ok := errors.AsType[*service.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) && c.ctx.Err() != nil {
			return // the client has gone
		}
		c.Log.Error("page failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
		known = &service.Error{Code: service.ErrInternal,
			Detail: "The server could not make this page. Its log says why."}
	}
	if known.Code == service.ErrUnauthorized {
		http.Redirect(c.w, c.r, c.link("/login"), http.StatusSeeOther)
		return
	}
	shown := *known
	shown.Detail = ui.Capital(known.Detail)
	view := &errorView{c.frame(known.Code.Title(), ""), &shown}
	if err := c.render(known.Code.Status(), "error", view); err != nil {
		c.Log.Error("page failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
		http.Error(c.w, known.Detail, known.Code.Status())
	}
}

type errorView struct {
	frame
	Error *service.Error
}

// frame is what every page shows around its content.
type frame struct {
	Title, Section string // Section is the entry of the navigation
	Base, Version  string
	Assets         string // address of the style sheet and the scripts
	Token, Account string
	Since          int64 // id of the last event that the page shows
	CanWrite       bool
	Admin          bool
	Tab            string // which page of a crawl or of the settings it is
}

func (c *call) frame(title, section string) frame {
	s := c.Server
	f := frame{Title: title, Section: section, Base: s.base, Version: s.Version, Token: c.cred.csrf, Since: c.since,
		Assets: s.base + "/assets/" + s.assets.version}
	if c.caller != nil {
		f.Account, f.CanWrite, f.Admin = c.caller.Account.Name, c.caller.Has(service.ScopeWrite),
			c.caller.Has(service.ScopeAdmin)
	}
	return f
}

// crawlPath is the address of a page of a crawl.
func (f frame) crawlPath(id, rest string) string {
	return f.Base + "/crawls/" + url.PathEscape(id) + rest
}

// values are the values of some names in the query of the request; empty if they are not given.
func (c *call) values(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = strings.TrimSpace(c.r.URL.Query().Get(name))
	}
	return all
}

// address is a path with values as its query. change has names and the values that replace theirs, in turn.
func address(path string, values map[string]string, change ...string) string {
	values = maps.Clone(values)
	for pair := range slices.Chunk(change, 2) {
		values[pair[0]] = pair[1]
	}
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return path + "?" + query.Encode()
}

// render answers with a template. Nothing is sent if it fails.
func (c *call) render(status int, name string, view any) error {
	out := &bytes.Buffer{}
	if err := c.templates.ExecuteTemplate(out, name, view); err != nil {
		return err
	}
	c.sendHTML(status, out.Bytes())
	return nil
}

func (c *call) sendHTML(status int, text []byte) {
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(text) // a client that has gone
}

// then leads the browser to another page after a form, unless there is an error.
func (c *call) then(p string, err error) error {
	if err != nil {
		return err
	}
	return c.to(p)
}

// to leads the browser to another page.
func (c *call) to(p string) error {
	http.Redirect(c.w, c.r, c.link(p), http.StatusSeeOther)
	return nil
}

// ofCrawl is the handler of a page of the crawl that the path names.
func ofCrawl(show func(*call, *service.Crawl) error) func(*call) error {
	return func(c *call) error {
		crawl, err := c.find()
		if err != nil {
			return err
		}
		c.watch(crawl)
		return show(c, crawl)
	}
}

// noPage answers for addresses that no page has.
func (c *call) noPage() error {
	return refuse(service.ErrNotFound, "There is no page at this address.")
}

// watch begins to keep the figures of a crawl that runs.
func (s *Server) watch(crawl *service.Crawl) {
	if crawl.State == service.Running || crawl.State == service.Pausing {
		s.history.watch(crawl.ID, crawl.Generation)
	}
}

// missing reports whether a file does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
