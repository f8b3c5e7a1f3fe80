package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/pageindex"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/hooks"
	"github.com/mapwright/mapwright/internal/service/hosts"
	"github.com/mapwright/mapwright/internal/service/schedules"
)

// Options are what the pages need. All parts must be given.
type Options struct {
	Base    string // path below which everything is; empty, or with a leading and without a trailing slash
	Version string // of the program
	Log     *slog.Logger

	Sessions  Sessions
	Runs      Runs // the crawls of Service
	Service   *service.Service
	Schedules *schedules.Schedules
	Hooks     *hooks.Hooks
	Hosts     *hosts.Hosts
}

// Sessions tells who asks. The server of the HTTP API implements it.
type Sessions interface {
	// Session finds the caller of a request, and the token that forms of its session carry. The error is a
	// *service.Error.
	Session(w http.ResponseWriter, r *http.Request) (caller *service.Caller, token string, err error)
	// CheckForm refuses a form that does not come from a page of the session. The field csrf has the token.
	CheckForm(r *http.Request, token string) error
	// EndSession ends the session of a request.
	EndSession(w http.ResponseWriter, r *http.Request) error
}

// Runs are the crawls as they run, and their files. The caller of these methods has found the crawl before.
type Runs interface {
	Live(id string) *monitor.Live
	DataDir(id string) datadir.Dir
}

// Server answers requests for pages. The path of a request is without the base.
type Server struct {
	o         Options
	templates *template.Template
	assets    *assets
	history   *history
	live      *liveCache
	indexes   pageindex.Cache
	mux       *http.ServeMux
}

// New makes a server.
func New(o Options) (*Server, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	s := &Server{o: o, assets: newAssets(), history: newHistory(o.Runs), mux: http.NewServeMux()}
	s.live = newLiveCache(s)
	templates, err := ui.Parse(files, "templates/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("read the templates of pages: %w", err)
	}
	s.templates = templates
	for pattern, h := range s.routes() {
		s.mux.Handle(pattern, s.serve(h))
	}
	s.mux.Handle("GET /assets/{version}/{name}", s.assets)
	return s, nil
}

// handler answers one request.
type handler func(*request) error

// routes are all pages, and what their forms do.
func (s *Server) routes() map[string]handler {
	routes := map[string]handler{
		"GET /{$}":                        showCrawls("crawls"),
		"GET /list":                       showCrawls("crawl-groups"),
		"GET /new":                        showNew,
		"POST /new":                       submitNew,
		"GET /crawls/{id}":                ofCrawl(showCrawl),
		"GET /crawls/{id}/head":           ofCrawl(showHead),
		"GET /crawls/{id}/live":           ofCrawl(showLive),
		"POST /crawls/{id}/edit":          ofCrawl(editCrawl),
		"GET /crawls/{id}/pages":          ofCrawl(showPages),
		"GET /crawls/{id}/page":           ofCrawl(showPage),
		"GET /crawls/{id}/problems":       ofCrawl(showProblems),
		"GET /crawls/{id}/changes":        ofCrawl(showChanges),
		"GET /settings":                   showAccount,
		"POST /settings/keys":             createKey,
		"POST /settings/keys/revoke":      revokeKey,
		"GET /settings/audit":             showAudit,
		"GET /settings/schedules":         showSchedules,
		"POST /settings/schedules":        createSchedule,
		"POST /settings/schedules/edit":   editSchedule,
		"POST /settings/schedules/delete": deleteSchedule,
		"GET /settings/webhooks":          showWebhooks,
		"POST /settings/webhooks":         createWebhook,
		"POST /settings/webhooks/edit":    editWebhook,
		"POST /settings/webhooks/test":    testWebhook,
		"POST /settings/webhooks/again":   redeliver,
		"POST /settings/webhooks/delete":  deleteWebhook,
		"GET /settings/hosts":             showHosts,
		"POST /settings/hosts":            changeHost,
		"POST /leave":                     leave,
	}
	for _, c := range service.Commands() {
		routes["POST /crawls/{id}/"+string(c)] = giveCommand(c)
	}
	return routes
}

// Run keeps the figures of running crawls for their charts, and forgets what no page has used for a while, until ctx
// ends. No request may come after it has returned.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.indexes.Close()
			return
		case now := <-tick.C:
			s.history.sample(now)
			s.live.sweep(now)
			s.indexes.Sweep(now, keepUnused)
		}
	}
}

// keepUnused is how long something is kept that no page uses.
const keepUnused = time.Minute

// watch begins to keep the figures of a crawl that runs.
func (s *Server) watch(c *service.Crawl) {
	if c.State == service.Running || c.State == service.Pausing {
		s.history.watch(c.ID, c.Generation)
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.serve(func(*request) error {
			return &service.Error{Code: service.ErrNotFound, Detail: "There is no page at this address."}
		}).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// policy lets pages use what this server sends and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const maxForm = 1 << 20 // bytes of a form; it may have many start URLs

func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "same-origin") // without a referrer, forms have the origin null
		q := &request{server: s, w: w, r: r}
		if err := q.run(h); err != nil {
			q.fail(err)
		}
	})
}

// request is one request with its caller.
type request struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	caller *service.Caller
	token  string // of forms
	since  int64  // id of the last event before anything was read: the script asks for those after it
}

func (q *request) run(h handler) (err error) {
	if q.caller, q.token, err = q.server.o.Sessions.Session(q.w, q.r); err != nil {
		return err
	}
	if q.r.Method == http.MethodPost {
		q.r.Body = http.MaxBytesReader(q.w, q.r.Body, maxForm)
		if err := q.r.ParseForm(); err != nil {
			return &service.Error{Code: service.ErrInvalid,
				Detail: "The form cannot be read: it is too long or did not arrive whole."}
		}
		if err := q.server.o.Sessions.CheckForm(q.r, q.token); err != nil {
			return err
		}
		if !q.caller.Has(service.ScopeWrite) && q.r.URL.Path != "/leave" {
			return &service.Error{Code: service.ErrForbidden,
				Detail: "This session may only look: its key has the scope read."}
		}
	}
	if q.since, err = q.server.o.Service.Events.Last(q.r.Context()); err != nil {
		return err
	}
	return h(q)
}

// fail answers with a page that says what went wrong. Without a session it leads to the login page.
func (q *request) fail(err error) {
	known, ok := errors.AsType[*service.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) && q.r.Context().Err() != nil {
			return // the client has gone
		}
		q.server.o.Log.Error("page failed", "method", q.r.Method, "path", q.r.URL.Path, "error", err)
		known = &service.Error{Code: service.ErrInternal,
			Detail: "The server could not make this page. Its log says why."}
	}
	if known.Code == service.ErrUnauthorized {
		http.Redirect(q.w, q.r, q.path("/login"), http.StatusSeeOther)
		return
	}
	shown := *known
	shown.Detail = ui.Capital(known.Detail)
	view := &errorView{frame: q.frame(known.Code.Title(), ""), Error: &shown}
	if err := q.render(known.Code.Status(), "error", view); err != nil {
		q.server.o.Log.Error("page failed", "method", q.r.Method, "path", q.r.URL.Path, "error", err)
		http.Error(q.w, known.Detail, known.Code.Status())
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
	Style, Script  string // addresses
	Sort, Icon     string
	Token, Account string
	Since          int64 // id of the last event that the page shows
	CanWrite       bool
	Admin          bool
	Tab            string // which page of a crawl or of the settings it is
}

func (q *request) frame(title, section string) frame {
	s := q.server
	f := frame{Title: title, Section: section, Base: s.o.Base, Version: s.o.Version, Token: q.token, Since: q.since,
		Style: s.o.Base + s.assets.path("style.css"), Script: s.o.Base + s.assets.path("app.js"), Sort: s.o.Base +
			s.assets.path("sort.js"), Icon: s.o.Base + s.assets.path("icon.svg")}
	if q.caller != nil {
		f.Account, f.CanWrite, f.Admin = q.caller.Account.Name, q.caller.Has(service.ScopeWrite),
			q.caller.Has(service.ScopeAdmin)
	}
	return f
}

// path is an address on this server.
func (q *request) path(p string) string { return q.server.o.Base + p }

// crawlPath is the address of a page of a crawl.
func (f frame) crawlPath(id, rest string) string {
	return f.Base + "/crawls/" + url.PathEscape(id) + rest
}

// encode is a query without the names that have no value.
func encode(values map[string]string) string {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// render answers with a template. Nothing is sent if it fails.
func (q *request) render(status int, name string, view any) error {
	out := &bytes.Buffer{}
	if err := q.server.templates.ExecuteTemplate(out, name, view); err != nil {
		return err
	}
	q.send(status, out.Bytes())
	return nil
}

func (q *request) send(status int, text []byte) {
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = q.w.Write(text) // a client that has gone
}

// then leads the browser to another page after a form, unless there is an error.
func (q *request) then(p string, err error) error {
	if err != nil {
		return err
	}
	return q.to(p)
}

// to leads the browser to another page.
func (q *request) to(p string) error {
	http.Redirect(q.w, q.r, q.path(p), http.StatusSeeOther)
	return nil
}

// ofCrawl is a handler for the crawl that the path names.
func ofCrawl(h func(*request, *service.Crawl) error) handler {
	return func(q *request) error {
		c, err := q.crawl()
		if err != nil {
			return err
		}
		return h(q, c)
	}
}

// crawl finds the crawl that the path names.
func (q *request) crawl() (*service.Crawl, error) {
	id := q.r.PathValue("id")
	if id == "" || len(id) > 64 || strings.ContainsAny(id, "/\\.") {
		return nil, &service.Error{Code: service.ErrNotFound, Detail: "There is no such crawl."}
	}
	c, err := q.server.o.Service.Crawls.Get(q.r.Context(), q.caller, id)
	if err == nil {
		q.server.watch(c)
	}
	return c, err
}

// missing reports whether a file does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// admin refuses callers that are no admins.
func (q *request) admin() error {
	if q.caller.Has(service.ScopeAdmin) {
		return nil
	}
	return &service.Error{Code: service.ErrForbidden, Detail: "Only an admin may see and change this."}
}
