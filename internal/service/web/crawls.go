package web

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

// crawlsView is what the list shows.
type crawlsView struct {
	frame
	Query  crawlsQuery
	States []service.State
	Groups []crawlGroup
	Next   string // address of the next part of the last group
	First  string // address of its first part, if this is another one
}

// crawlsQuery are the filters of the list, as the URL has them.
type crawlsQuery struct{ Name, State, Label, Cursor string }

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
func showCrawls(template string) handler {
	return func(q *request) error {
		v, err := listCrawls(q)
		if err != nil {
			return err
		}
		return q.render(http.StatusOK, template, v)
	}
}

const (
	shownAttention = 10
	shownQueue     = 50
	shownRunning   = 100
	shownRecent    = 50
)

func listCrawls(q *request) (*crawlsView, error) {
	get := q.r.URL.Query()
	v := &crawlsView{frame: q.frame("Crawls", "crawls"), States: service.States(),
		Query: crawlsQuery{get.Get("q"), get.Get("state"), get.Get("label"), get.Get("cursor")}}
	filter := service.CrawlFilter{Name: v.Query.Name, Label: v.Query.Label, Cursor: v.Query.Cursor, Limit: shownRecent}
	if v.Query.State != "" {
		if !slices.Contains(v.States, service.State(v.Query.State)) {
			return nil, &service.Error{Code: service.ErrInvalid, Detail: "There is no such state of a crawl."}
		}
		filter.States = []service.State{service.State(v.Query.State)}
	}
	last := crawlGroup{ID: "found", Title: "Crawls found", Empty: "No crawl matches these filters."}
	if (v.Query == crawlsQuery{Cursor: v.Query.Cursor}) {
		filter.States = []service.State{service.Complete, service.Partial, service.Failed, service.Cancelled,
			service.Paused, service.Deleting}
		last = crawlGroup{ID: "ended", Title: "Ended and paused", Empty: "No crawl has ended yet.", Ended: true}
		if v.Query.Cursor == "" {
			if err := v.addNow(q); err != nil {
				return nil, err
			}
		}
	}
	list, err := q.server.o.Service.Crawls.List(q.r.Context(), q.caller, filter)
	if err != nil {
		return nil, err
	}
	v.add(q, last, list.Items)
	if list.NextCursor != "" {
		v.Next = v.address(list.NextCursor)
	}
	if v.Query.Cursor != "" {
		v.First = v.address("")
	}
	return v, nil
}

// address is that of this list at another place.
func (v *crawlsView) address(cursor string) string {
	return v.Base + "/?" + encode(map[string]string{"q": v.Query.Name, "state": v.Query.State, "label": v.Query.Label,
		"cursor": cursor})
}

// addNow adds the crawls that need attention, run and wait.
func (v *crawlsView) addNow(q *request) error {
	find := func(limit int, states ...service.State) (*service.List[*service.Crawl], error) {
		return q.server.o.Service.Crawls.List(q.r.Context(), q.caller,
			service.CrawlFilter{States: states, Limit: limit})
	}
	stopped, err := find(shownRecent, service.Failed, service.Partial, service.Paused)
	if err != nil {
		return err
	}
	attention := slices.DeleteFunc(slices.Clone(stopped.Items),
		func(c *service.Crawl) bool { return !needsAttention(c) })
	more := ""
	if len(attention) > shownAttention {
		attention, more = attention[:shownAttention], v.Base+"/?state="+string(service.Failed)
	}
	if len(attention) > 0 {
		v.add(q, crawlGroup{ID: "attention", Title: "Needs attention", More: more, Ended: true}, attention)
	}
	running, err := find(shownRunning, service.Running, service.Pausing, service.Finishing)
	if err != nil {
		return err
	}
	v.add(q, crawlGroup{ID: "running", Title: "Running", Empty: "No crawl runs."}, running.Items)
	queue, err := q.server.o.Service.Crawls.Queue(q.r.Context(), q.caller, service.CrawlFilter{Limit: shownQueue})
	if err != nil {
		return err
	}
	if more = ""; queue.NextCursor != "" {
		more = v.Base + "/?state=" + string(service.Queued)
	}
	v.add(q, crawlGroup{ID: "queue", Title: "Queue", Empty: "No crawl waits.", Queue: true, More: more}, queue.Items)
	return nil
}

// needsAttention says whether a person should look at a crawl: it failed, a limit ended it, or something other than a
// person paused it.
func needsAttention(c *service.Crawl) bool {
	switch c.State {
	case service.Failed, service.Partial:
		return true
	case service.Paused:
		return c.Waiting != nil && c.Waiting.Code != service.WaitOperator
	}
	return false
}

func (v *crawlsView) add(q *request, g crawlGroup, crawls []*service.Crawl) {
	for _, c := range crawls {
		q.server.watch(c)
		g.Rows = append(g.Rows, rowOf(&v.frame, c))
	}
	v.Groups = append(v.Groups, g)
}

func rowOf(f *frame, c *service.Crawl) crawlRow {
	return crawlRow{Crawl: c, Path: f.crawlPath(c.ID, ""), Label: label(c), Badge: stateBadge(c.State), Why: why(c),
		Site: siteText(c.Problems), At: lastAt(c),
		Live: c.State == service.Running || c.State == service.Pausing}
}

// label names a crawl: by its name, or by its first start URL.
func label(c *service.Crawl) string {
	if c.Name != "" {
		return c.Name
	}
	if len(c.StartURLs) == 0 {
		return c.ID
	}
	name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c.StartURLs[0], "https://"), "http://"), "/")
	if more := c.StartURLCount - 1; more > 0 {
		name += " and " + humanize.Comma(int64(more)) + " more"
	}
	return name
}

// why says why a crawl waits, or how it ended.
func why(c *service.Crawl) string {
	switch {
	case c.Waiting != nil && !c.State.Ended():
		return c.Waiting.Detail
	case c.State.Ended():
		return c.Reason
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

func lastAt(c *service.Crawl) page.Time {
	for _, t := range []page.Time{c.EndedAt, c.StartedAt} {
		if !t.IsZero() {
			return t
		}
	}
	return c.CreatedAt
}

// stateBadge shows a state. Colours only repeat what the word says.
func stateBadge(s service.State) ui.Cell {
	tones := map[service.State]string{service.Running: "info", service.Finishing: "info", service.Complete: "good",
		service.Partial: "warn", service.Paused: "warn",
		service.Pausing: "warn", service.Failed: "bad"}
	return ui.Badge(string(s), tones[s], slices.Index(service.States(), s))
}
