package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/internal/service"
)

// crawlRoutes are the routes of crawls and their queue.
type crawlRoutes struct{ server *Server }

func (a crawlRoutes) crawls() *service.Crawls { return a.server.service.Crawls }

func (a crawlRoutes) list(c *call) error {
	q := c.query()
	f := service.CrawlFilter{Label: q.text("label"), Name: q.text("q"), Schedule: q.text("schedule"),
		Cursor: q.text("cursor"), Limit: q.number("limit", 1, mostItems, someItems)}
	f.Account = c.account(q)
	for name := range strings.SplitSeq(q.text("state"), ",") {
		if state := service.State(name); slices.Contains(service.States(), state) {
			f.States = append(f.States, state)
		} else if name != "" {
			q.fault("state", "invalid", "there is no state "+shorten(name))
		}
	}
	if err := q.done(); err != nil {
		return err
	}
	return c.crawlList(a.crawls().List(c.r.Context(), c.caller, f))
}

// account is the id of the account that a list is about: the caller's own or, for an admin, another one by its id or
// name. Empty means all.
func (c *call) account(q *query) string {
	text := q.text("account")
	switch {
	case text == "" || text == c.caller.Account.ID:
		return c.caller.Account.ID
	case !c.caller.Has(service.ScopeAdmin):
		q.fault("account", "not_allowed", "other accounts need the scope admin")
		return c.caller.Account.ID
	case text == "*":
		return ""
	}
	account, err := c.server.service.Accounts.Get(c.r.Context(), text)
	if err != nil {
		q.fault("account", "unknown", err.Error())
	}
	return account.ID
}

// crawlList answers with crawls, unless there is an error.
func (c *call) crawlList(list *service.List[*service.Crawl], err error) error {
	if err != nil {
		return err
	}
	for _, crawl := range list.Items {
		c.addLinks(crawl)
	}
	return c.json(http.StatusOK, list)
}

func (a crawlRoutes) queue(c *call) error {
	q := c.query()
	f := service.CrawlFilter{Account: c.account(q), Cursor: q.text("cursor"),
		Limit: q.number("limit", 1, mostItems, someItems)}
	if err := q.done(); err != nil {
		return err
	}
	return c.crawlList(a.crawls().Queue(c.r.Context(), c.caller, f))
}

func (a crawlRoutes) submit(c *call) error {
	var s service.Submission
	if err := c.body(&s); err != nil {
		return err
	}
	const most = 255
	key := c.r.Header.Get("Idempotency-Key")
	if len(key) > most {
		return refuse(service.ErrInvalid, "the request has faults",
			service.FieldError{Field: "Idempotency-Key", Code: "too_long", Detail: "must have at most 255 bytes"})
	}
	return c.accepted(a.crawls().Submit(c.r.Context(), c.caller, s, key))
}

// accepted answers with a crawl that a command acts on, unless there is an error.
func (c *call) accepted(crawl *service.Crawl, err error) error {
	if err != nil {
		return err
	}
	c.addLinks(crawl)
	c.w.Header().Set("Location", c.link("/v1/crawls/"+crawl.ID))
	return c.json(http.StatusAccepted, crawl)
}

// addLinks names the addresses of what there is of a crawl.
func (c *call) addLinks(crawl *service.Crawl) {
	self := c.link("/v1/crawls/" + crawl.ID)
	crawl.Links = map[string]string{"self": self}
	for _, name := range []string{"pages", "events", "log", "runs", "problems", "report", "report.html", "pages.jsonl",
		"sitemap.xml", "links", "changes"} {
		crawl.Links[name] = self + "/" + name
	}
}

func (a crawlRoutes) get(c *call) error {
	return c.crawl(a.find(c))
}

// crawl answers with a crawl, unless there is an error.
func (c *call) crawl(crawl *service.Crawl, err error) error {
	if err != nil {
		return err
	}
	c.addLinks(crawl)
	return c.json(http.StatusOK, crawl)
}

// find reads the crawl that the path names.
func (a crawlRoutes) find(c *call) (*service.Crawl, error) {
	return a.crawls().Get(c.r.Context(), c.caller, c.id())
}

func (a crawlRoutes) edit(c *call) error {
	var e service.Edit
	if err := c.body(&e); err != nil {
		return err
	}
	return c.crawl(a.crawls().Edit(c.r.Context(), c.caller, c.id(), e))
}

// command is the handler of a command without a body.
func (a crawlRoutes) command(command service.Command) func(*call) error {
	return func(c *call) error {
		var recrawl service.Recrawl
		if command == service.CommandRecrawl {
			if err := c.optionalBody(&recrawl); err != nil {
				return err
			}
		}
		return c.accepted(a.crawls().Command(c.r.Context(), c.caller, c.id(), command, &recrawl))
	}
}

func (a crawlRoutes) runs(c *call) error {
	all, err := a.crawls().Runs(c.r.Context(), c.caller, c.id())
	return items(c, all, err)
}
