package serve

import (
	"net/http"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/words"
)

func (c *call) listCrawls() error {
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
	return c.crawlList(c.Service.Crawls.List(c.ctx, c.caller, f))
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
	account, err := c.Service.Accounts.Get(c.ctx, text)
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

func (c *call) listQueue() error {
	q := c.query()
	f := service.CrawlFilter{Account: c.account(q), Cursor: q.text("cursor"),
		Limit: q.number("limit", 1, mostItems, someItems)}
	if err := q.done(); err != nil {
		return err
	}
	return c.crawlList(c.Service.Crawls.Queue(c.ctx, c.caller, f))
}

func (c *call) submit() error {
	var s service.Submission
	if err := c.body(&s); err != nil {
		return err
	}
	return c.accepted(c.Service.Crawls.Submit(c.ctx, c.caller, s, c.r.Header.Get("Idempotency-Key")))
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

func (c *call) getCrawl() error {
	return c.crawl(c.find())
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
func (c *call) find() (*service.Crawl, error) {
	return c.Service.Crawls.Get(c.ctx, c.caller, c.id())
}

func (c *call) editCrawl() error {
	var e service.Edit
	if err := c.body(&e); err != nil {
		return err
	}
	return c.crawl(c.Service.Crawls.Edit(c.ctx, c.caller, c.id(), e))
}

// command makes the handler of a command. Only a recrawl has a body, which is optional.
func command(command service.Command) func(*call) error {
	return func(c *call) error {
		var recrawl service.Recrawl
		if command == service.CommandRecrawl {
			if err := c.optionalBody(&recrawl); err != nil {
				return err
			}
		}
		return c.accepted(c.Service.Crawls.Command(c.ctx, c.caller, c.id(), command, &recrawl))
	}
}

func (c *call) listRuns() error {
	all, err := c.Service.Crawls.Runs(c.ctx, c.caller, c.id())
	return items(c, all, err)
}

// crawlsView is what the list shows.
type crawlsView struct {
	frame
	Query  map[string]string // q, state, label, cursor
	States []service.State
	Groups []crawlGroup
	Next   string // address of the next part of the last group
	First  string // address of its first part, if this is another one
}

// crawlGroup is a table of crawls.
type crawlGroup struct {
	ID, Title, Empty string
	Queue            bool // has positions and reasons
	Ended            bool // has what was found, and no rate
	Rows             []crawlRow
	More             string // address of all crawls of the group, if some are not shown
}

// crawlRow is a crawl in a table.
type crawlRow struct {
	*service.Crawl
	Path, Label string
	Badge       ui.Cell
	Why         string    // why it waits or how it ended
	Site        string    // how many problems of the site were found
	At          page.Time // the last thing that happened to it
	Live        bool
}

// showCrawls lists crawls: first what needs attention, then what runs and what waits, then the others. The template is
// that of the page, or of its tables only, for the script.
func showCrawls(template string) func(*call) error {
	return func(c *call) error {
		v, err := c.listing()
		if err != nil {
			return err
		}
		return c.render(http.StatusOK, template, v)
	}
}

const (
	shownAttention = 10
	shownQueue     = 50
	shownRunning   = 100
	shownRecent    = 50
)

func (c *call) listing() (*crawlsView, error) {
	v := &crawlsView{frame: c.frame("Crawls", "crawls"), States: service.States(),
		Query: c.values("q", "state", "label", "cursor")}
	filter := service.CrawlFilter{Name: v.Query["q"], Label: v.Query["label"], Cursor: v.Query["cursor"],
		Limit: shownRecent}
	if state := service.State(v.Query["state"]); state != "" {
		if !slices.Contains(v.States, state) {
			return nil, refuse(service.ErrInvalid, "There is no such state of a crawl.")
		}
		filter.States = []service.State{state}
	}
	last := crawlGroup{ID: "found", Title: "Crawls found", Empty: "No crawl matches these filters."}
	if filter.Name == "" && filter.Label == "" && filter.States == nil {
		filter.States = []service.State{service.Complete, service.Partial, service.Failed, service.Cancelled,
			service.Paused, service.Deleting}
		last = crawlGroup{ID: "ended", Title: "Ended and paused", Empty: "No crawl has ended yet.", Ended: true}
		if filter.Cursor == "" {
			if err := v.addNow(c); err != nil {
				return nil, err
			}
		}
	}
	list, err := c.Service.Crawls.List(c.ctx, c.caller, filter)
	if err != nil {
		return nil, err
	}
	if list.NextCursor != "" {
		v.Next = address(v.Base+"/", v.Query, "cursor", list.NextCursor)
		last.Empty = "No crawl of this part of the list matches these filters. Older ones may."
	}
	v.add(c, last, list.Items)
	if filter.Cursor != "" {
		v.First = address(v.Base+"/", v.Query, "cursor", "")
	}
	return v, nil
}

// addNow adds the crawls that need attention, run and wait.
func (v *crawlsView) addNow(c *call) error {
	find := func(limit int, states ...service.State) (*service.List[*service.Crawl], error) {
		return c.Service.Crawls.List(c.ctx, c.caller, service.CrawlFilter{States: states, Limit: limit})
	}
	stopped, err := find(shownRecent, service.Failed, service.Partial, service.Paused)
	if err != nil {
		return err
	}
	attention := slices.DeleteFunc(slices.Clone(stopped.Items),
		func(crawl *service.Crawl) bool { return !needsAttention(crawl) })
	more := ""
	if len(attention) > shownAttention {
		attention, more = attention[:shownAttention], v.Base+"/?state="+string(service.Failed)
	}
	if len(attention) > 0 {
		v.add(c, crawlGroup{ID: "attention", Title: "Needs attention", More: more, Ended: true}, attention)
	}
	running, err := find(shownRunning, service.Running, service.Pausing, service.Finishing)
	if err != nil {
		return err
	}
	running.Items = slices.DeleteFunc(running.Items, func(crawl *service.Crawl) bool {
		return crawl.State == service.Finishing && crawl.Waiting != nil // it is in the queue
	})
	v.add(c, crawlGroup{ID: "running", Title: "Running", Empty: "No crawl runs."}, running.Items)
	queue, err := c.Service.Crawls.Queue(c.ctx, c.caller, service.CrawlFilter{Limit: shownQueue})
	if err != nil {
		return err
	}
	if more = ""; queue.NextCursor != "" {
		more = v.Base + "/?state=" + string(service.Queued)
	}
	v.add(c, crawlGroup{ID: "queue", Title: "Queue", Empty: "No crawl waits.", Queue: true, More: more}, queue.Items)
	return nil
}

// needsAttention says whether a person should look at a crawl: it failed, a limit ended it, or something other than a
// person paused it.
func needsAttention(crawl *service.Crawl) bool {
	switch crawl.State {
	case service.Failed, service.Partial:
		return true
	case service.Paused:
		return crawl.Waiting != nil && crawl.Waiting.Code != service.WaitOperator &&
			crawl.Desired != service.DesiredCancel
	}
	return false
}

func (v *crawlsView) add(c *call, g crawlGroup, crawls []*service.Crawl) {
	for _, crawl := range crawls {
		c.watch(crawl)
		g.Rows = append(g.Rows, rowOf(&v.frame, crawl))
	}
	v.Groups = append(v.Groups, g)
}

func rowOf(f *frame, crawl *service.Crawl) crawlRow {
	return crawlRow{Crawl: crawl, Path: f.crawlPath(crawl.ID, ""), Label: label(crawl), Badge: stateBadge(crawl.State),
		Why: why(crawl), Site: siteText(crawl.Problems), At: lastAt(crawl),
		Live: crawl.State == service.Running || crawl.State == service.Pausing}
}

// label names a crawl: by its name, or by its first start URL.
func label(crawl *service.Crawl) string {
	if crawl.Name != "" {
		return crawl.Name
	}
	if len(crawl.StartURLs) == 0 {
		return crawl.ID
	}
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(crawl.StartURLs[0], "https://"), "http://"), "/")
	if more := crawl.StartURLCount - 1; more > 0 {
		name += " and " + humanize.Comma(int64(more)) + " more"
	}
	return name
}

// why says why a crawl waits, or how it ended.
func why(crawl *service.Crawl) string {
	switch {
	case crawl.Waiting != nil && !crawl.State.Ended():
		return crawl.Waiting.Detail
	case crawl.State.Ended():
		return crawl.Reason
	}
	return ""
}

// siteText says how many errors and warnings a crawl found; empty if none.
func siteText(p *problems.Totals) string {
	var parts []string
	if p != nil && p.Errors > 0 {
		parts = append(parts, words.Count(p.Errors, "error"))
	}
	if p != nil && p.Warnings > 0 {
		parts = append(parts, words.Count(p.Warnings, "warning"))
	}
	return strings.Join(parts, ", ")
}

func lastAt(crawl *service.Crawl) page.Time {
	for _, t := range []page.Time{crawl.EndedAt, crawl.StartedAt} {
		if !t.IsZero() {
			return t
		}
	}
	return crawl.CreatedAt
}

// stateBadge shows a state. Colours only repeat what the word says.
func stateBadge(s service.State) ui.Cell {
	tones := map[service.State]string{service.Running: "info", service.Finishing: "info", service.Complete: "good",
		service.Partial: "warn", service.Paused: "warn",
		service.Pausing: "warn", service.Failed: "bad"}
	return ui.Badge(string(s), tones[s], slices.Index(service.States(), s))
}
