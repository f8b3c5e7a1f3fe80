package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/service"
)

// public is the scope of routes that need no caller.
const public service.Scope = ""

// route is one operation of openapi.yaml.
type route struct {
	method, path string
	scope        service.Scope // public, or what the caller must have
	handle       func(*call) error
}

// routes are all operations. A test compares them with the document.
func (s *Server) routes() []route {
	const (
		read  = service.ScopeRead
		write = service.ScopeWrite
		admin = service.ScopeAdmin
	)
	crawls, accounts, events, logins, server := crawlRoutes{s}, accountRoutes{s}, eventRoutes{s}, newLogins(s),
		newServerRoutes(s)
	results, schedules, hooks, hosts := resultRoutes{crawls}, s.parts.Schedules, s.parts.Hooks,
		hostRoutes{s.parts.Hosts}
	deliveries := deliveryRoutes{hooks}
	return []route{
		{"GET", "/healthz", public, server.health},
		{"GET", "/readyz", public, server.ready},
		{"GET", "/openapi.json", public, server.document},
		{"GET", "/problems/{code}", public, server.problem},
		{"GET", "/metrics", admin, server.metrics},
		{"GET", "/login", public, logins.show},
		{"POST", "/login", public, logins.enter},
		{"POST", "/logout", read, logins.leave},

		{"GET", "/v1/me", read, accounts.me},
		{"GET", "/v1/settings", read, server.settings},
		{"GET", "/v1/crawls", read, crawls.list},
		{"POST", "/v1/crawls", write, crawls.submit},
		{"GET", "/v1/crawls/{id}", read, crawls.get},
		{"PATCH", "/v1/crawls/{id}", write, crawls.edit},
		{"DELETE", "/v1/crawls/{id}", write, crawls.command(service.CommandDelete)},
		{"POST", "/v1/crawls/{id}/pause", write, crawls.command(service.CommandPause)},
		{"POST", "/v1/crawls/{id}/resume", write, crawls.command(service.CommandResume)},
		{"POST", "/v1/crawls/{id}/cancel", write, crawls.command(service.CommandCancel)},
		{"POST", "/v1/crawls/{id}/recrawl", write, crawls.command(service.CommandRecrawl)},
		{"GET", "/v1/queue", read, crawls.queue},

		{"GET", "/v1/crawls/{id}/pages", read, results.pages},
		{"GET", "/v1/crawls/{id}/pages.jsonl", read, results.file(datadir.Dir.JSONL, linesKind)},
		{"GET", "/v1/crawls/{id}/links", read, results.file(datadir.Dir.Links, linesKind)},
		{"GET", "/v1/crawls/{id}/changes", read, results.file(datadir.Dir.Changes, linesKind)},
		{"GET", "/v1/crawls/{id}/report", read, results.file(datadir.Dir.Report, jsonKind)},
		{"GET", "/v1/crawls/{id}/report.html", read, results.file(datadir.Dir.ReportHTML, htmlKind)},
		{"GET", "/v1/crawls/{id}/page", read, results.page},
		{"GET", "/v1/crawls/{id}/problems", read, results.problems},
		{"GET", "/v1/crawls/{id}/problems/{code}", read, results.problem},
		{"GET", "/v1/crawls/{id}/runs", read, crawls.runs},
		{"GET", "/v1/crawls/{id}/log", read, results.log},
		{"GET", "/v1/crawls/{id}/sitemap.xml", read, results.sitemap},
		{"GET", "/v1/crawls/{id}/{part}", read, results.part},

		{"GET", "/v1/events", read, events.all},
		{"GET", "/v1/crawls/{id}/events", read, events.ofCrawl},

		{"GET", "/v1/schedules", read, list(func(s service.Schedule) string { return s.ID }, schedules.List)},
		{"POST", "/v1/schedules", write, create(func(s *service.Schedule) string { return "/v1/schedules/" + s.ID },
			schedules.Create)},
		{"GET", "/v1/schedules/{id}", read, get(schedules.Get)},
		{"PATCH", "/v1/schedules/{id}", write, edit(schedules.Edit)},
		{"DELETE", "/v1/schedules/{id}", write, remove(schedules.Delete)},
		{"GET", "/v1/webhooks", read, list(func(w service.Webhook) string { return w.ID }, hooks.List)},
		{"POST", "/v1/webhooks", write, create(func(w *service.Webhook) string { return "/v1/webhooks/" + w.ID },
			hooks.Create)},
		{"GET", "/v1/webhooks/{id}", read, get(hooks.Get)},
		{"PATCH", "/v1/webhooks/{id}", write, edit(hooks.Edit)},
		{"DELETE", "/v1/webhooks/{id}", write, remove(hooks.Delete)},
		{"POST", "/v1/webhooks/{id}/test", write, deliveries.test},
		{"GET", "/v1/webhooks/{id}/deliveries", read, deliveries.list},
		{"POST", "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", write, deliveries.again},
		{"GET", "/v1/hosts", admin, hosts.list},
		{"GET", "/v1/hosts/{host}", read, hosts.get},
		{"PUT", "/v1/hosts/{host}/deny", admin, hosts.deny},
		{"DELETE", "/v1/hosts/{host}/deny", admin, hosts.allow},

		{"GET", "/v1/keys", read, list(func(k service.Key) string { return k.ID }, accounts.accounts().Keys)},
		{"POST", "/v1/keys", write, accounts.createKey},
		{"DELETE", "/v1/keys/{id}", write, remove(accounts.revokeKey)},
		{"GET", "/v1/accounts", admin, accounts.list},
		{"POST", "/v1/accounts", admin, create(func(a service.Account) string { return "/v1/accounts/" + a.ID },
			accounts.create)},
		{"GET", "/v1/accounts/{id}", read, accounts.get},
		{"PATCH", "/v1/accounts/{id}", admin, edit(accounts.accounts().Edit)},
		{"GET", "/v1/plans", read, accounts.plans},
		{"PUT", "/v1/plans/{name}", admin, accounts.putPlan},
		{"DELETE", "/v1/plans/{name}", admin, accounts.deletePlan},
		{"GET", "/v1/usage", read, accounts.usage},
		{"GET", "/v1/audit", admin, accounts.audit},
	}
}

// call is one request with its caller.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	server *Server
	caller *service.Caller // nil for public routes
	cred   credential
}

// serve is the handler of a route.
func (s *Server) serve(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, server: s}
		if err := c.run(route); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (c *call) run(route route) (err error) {
	if route.scope != public {
		if c.caller, c.cred, err = c.server.authenticate(c.w, c.r); err != nil {
			return err
		}
		if err := c.server.checkCSRF(c.r, c.cred); err != nil {
			return err
		}
		if !c.caller.Has(route.scope) {
			return refuse(service.ErrForbidden, "this needs a key with the scope "+string(route.scope))
		}
		c.w.Header().Set("Cache-Control", "no-store")
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	return route.handle(c)
}

// body reads the body of the request.
func (c *call) body(dst any) error { return readBody(c.w, c.r, dst, false) }

// optionalBody reads the body of the request, if it has one.
func (c *call) optionalBody(dst any) error { return readBody(c.w, c.r, dst, true) }

// json answers with a value.
func (c *call) json(status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.send(status, append(text, '\n'))
	return nil
}

// reply answers with a value, unless there is an error.
func (c *call) reply(v any, err error) error {
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, v)
}

// link is an address on this server, for users.
func (c *call) link(path string) string { return c.server.base + path }

// id is the part of the path that names a crawl, an account and so on.
func (c *call) id() string { return c.r.PathValue("id") }

// checkNames refuses a path with a name that nothing can have.
func (c *call) checkNames() error {
	const most = 64
	for _, part := range []string{"id", "delivery", "name"} {
		name := c.r.PathValue(part)
		if len(name) > most || strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
		}) {
			return refuse(service.ErrNotFound, "there is no such thing")
		}
	}
	return nil
}

// query reads parameters of the query, and collects what is wrong with them.
type query struct {
	values map[string][]string
	known  map[string]bool
	faults []service.FieldError
}

func (c *call) query() *query {
	return &query{values: c.r.URL.Query(), known: map[string]bool{}}
}

// text is the value of a parameter, or "".
func (q *query) text(name string) string {
	q.known[name] = true
	switch values := q.values[name]; {
	case len(values) == 0:
		return ""
	case len(values) > 1:
		q.fault(name, "repeated", "must be given once")
		return ""
	default:
		const most = 4096
		if len(values[0]) > most {
			q.fault(name, "too_long", "must be shorter")
			return ""
		}
		return values[0]
	}
}

// cursor is the place in a list that the parameter cursor names, or "".
func (q *query) cursor() string {
	text := q.text("cursor")
	place, err := base64.RawURLEncoding.DecodeString(text)
	after, ours := strings.CutPrefix(string(place), cursorMark)
	if text != "" && (err != nil || !ours || after == "") {
		q.fault("cursor", "invalid", "use the value of next_cursor as it was given")
		return ""
	}
	return after
}

// cursorMark is the beginning of every cursor that cursorAt makes, so that other texts are refused.
const cursorMark = "after:"

// cursorAt is the cursor of what comes after a place in a list; empty for no place.
func cursorAt(place string) string {
	if place == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + place))
}

// number is the value of a parameter as a whole number, or def.
func (q *query) number(name string, low, high, def int) int {
	text := q.text(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		q.fault(name, "invalid", "must be a whole number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		return def
	}
	return n
}

func (q *query) fault(name, code, detail string) {
	q.faults = append(q.faults, service.FieldError{Field: name, Code: code, Detail: detail})
}

// done names every fault, and parameters that are not known.
func (q *query) done() error {
	for name := range q.values {
		if !q.known[name] {
			q.fault(shorten(name), "unknown", "there is no such parameter here")
		}
	}
	if len(q.faults) > 0 {
		return refuse(service.ErrInvalid, "the query has faults", q.faults...)
	}
	return nil
}

// Bounds on lists.
const (
	mostItems = 1000
	someItems = 100
)

// items answers with a whole list, unless there is an error.
func items[T any](c *call, all []T, err error) error {
	if all == nil {
		all = []T{}
	}
	return c.reply(service.List[T]{Items: all}, err)
}

// noContent answers that something was done, unless there is an error.
func (c *call) noContent(err error) error {
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}
