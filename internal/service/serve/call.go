package serve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/internal/service"
)

// call is one request with its caller.
type call struct {
	*Server
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // of r
	caller *service.Caller // nil for public routes
	cred   credential
	page   bool  // it is for a page: errors are pages, and changes come as forms
	since  int64 // of a page: id of the last event before anything was read. The script asks for those after it
	// endTurn ends the turn of the request among those of its account; nil for public routes. Handlers that send an
	// answer piece by piece call it before.
	endTurn func()
}

// serve is the handler of a route.
func (s *Server) serve(route route, page bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, Server: s, ctx: r.Context(), page: page}
		if page {
			w.Header().Set("Content-Security-Policy", pagePolicy)
			w.Header().Set("Referrer-Policy", "same-origin") // without a referrer, forms have the origin null
		}
		err := c.run(route)
		if err != nil && page {
			c.failPage(err)
		} else if err != nil {
			s.fail(w, r, err)
		}
	})
}

func (c *call) run(route route) (err error) {
	if route.scope != public {
		c.w.Header().Set("Cache-Control", "no-store")
		cred, err := credentialOf(c.r)
		if err == nil {
			err = c.admit(cred)
		}
		if err != nil {
			return err
		}
		defer c.endTurn()
		if !c.caller.Has(route.scope) {
			return c.outOfScope(route.scope)
		}
		if err := c.checkOrigin(); err != nil {
			return err
		}
		if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
			if err := c.takeChange(c.w, c.caller); err != nil {
				return err
			}
		}
	}
	if err := c.checkNames(); err != nil {
		return err
	}
	if c.page {
		if c.since, err = c.Service.Events.Last(c.ctx); err != nil {
			return err
		}
	}
	return route.handle(c)
}

// outOfScope is the error for a caller without the scope of a route.
func (c *call) outOfScope(scope service.Scope) error {
	switch {
	case !c.page:
		return refuse(service.ErrForbidden, "this needs a key with the scope "+string(scope))
	case scope == service.ScopeAdmin:
		return refuse(service.ErrForbidden, "Only an admin may see and change this.")
	}
	return refuse(service.ErrForbidden, "This session may only look: its key has the scope read.")
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
func (c *call) link(path string) string { return c.base + path }

// id is the part of the path that names a crawl, an account and so on.
func (c *call) id() string { return c.r.PathValue("id") }

// checkNames refuses a path with an id or a name that nothing can have.
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
