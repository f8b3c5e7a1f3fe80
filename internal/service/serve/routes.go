package serve

import (
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/service"
)

// public is the scope of routes that need no caller.
const public service.Scope = ""

// route is one operation of openapi.yaml, or a page.
type route struct {
	method, path string
	scope        service.Scope // public, or what the caller must have
	handle       func(*call) error
}

// routes are all operations of the API, which a test compares with the document, and the login by form.
func (s *Server) routes() []route {
	const (
		read  = service.ScopeRead
		write = service.ScopeWrite
		admin = service.ScopeAdmin
	)
	schedules, hooks, accounts := s.Schedules, s.Hooks, s.Service.Accounts
	return []route{
		{"GET", "/healthz", public, (*call).health},
		{"GET", "/readyz", public, (*call).ready},
		{"GET", "/openapi.json", public, (*call).getDocument},
		{"GET", "/problems/{code}", public, (*call).getErrorKind},
		{"GET", "/metrics", admin, (*call).getMetrics},
		{"GET", "/login", public, (*call).showLogin},
		{"POST", "/login", public, (*call).enter},
		{"POST", "/logout", read, (*call).leave},

		{"GET", "/v1/me", read, (*call).getMe},
		{"GET", "/v1/settings", read, (*call).listSettings},
		{"GET", "/v1/crawls", read, (*call).listCrawls},
		{"POST", "/v1/crawls", write, (*call).submit},
		{"GET", "/v1/crawls/{id}", read, (*call).getCrawl},
		{"PATCH", "/v1/crawls/{id}", write, (*call).editCrawl},
		{"DELETE", "/v1/crawls/{id}", write, command(service.CommandDelete)},
		{"POST", "/v1/crawls/{id}/pause", write, command(service.CommandPause)},
		{"POST", "/v1/crawls/{id}/resume", write, command(service.CommandResume)},
		{"POST", "/v1/crawls/{id}/cancel", write, command(service.CommandCancel)},
		{"POST", "/v1/crawls/{id}/recrawl", write, command(service.CommandRecrawl)},
		{"GET", "/v1/queue", read, (*call).listQueue},

		{"GET", "/v1/crawls/{id}/pages", read, (*call).listPages},
		{"GET", "/v1/crawls/{id}/pages.jsonl", read, file(datadir.Dir.JSONL, linesKind)},
		{"GET", "/v1/crawls/{id}/links", read, file(datadir.Dir.Links, linesKind)},
		{"GET", "/v1/crawls/{id}/changes", read, file(datadir.Dir.Changes, linesKind)},
		{"GET", "/v1/crawls/{id}/report", read, file(datadir.Dir.Report, jsonKind)},
		{"GET", "/v1/crawls/{id}/report.html", read, file(datadir.Dir.ReportHTML, htmlKind)},
		{"GET", "/v1/crawls/{id}/page", read, (*call).getPage},
		{"GET", "/v1/crawls/{id}/problems", read, (*call).listProblems},
		{"GET", "/v1/crawls/{id}/problems/{code}", read, (*call).getProblem},
		{"GET", "/v1/crawls/{id}/runs", read, (*call).listRuns},
		{"GET", "/v1/crawls/{id}/log", read, (*call).getLog},
		{"GET", "/v1/crawls/{id}/sitemap.xml", read, (*call).getSitemap},
		{"GET", "/v1/crawls/{id}/{part}", read, (*call).getPart},

		{"GET", "/v1/events", read, (*call).allEvents},
		{"GET", "/v1/crawls/{id}/events", read, (*call).crawlEvents},

		{"GET", "/v1/schedules", read, (*call).listSchedules},
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
		{"POST", "/v1/webhooks/{id}/test", write, (*call).testWebhook},
		{"GET", "/v1/webhooks/{id}/deliveries", read, (*call).listDeliveries},
		{"POST", "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", write, (*call).redeliver},
		{"GET", "/v1/hosts", admin, (*call).listHosts},
		{"GET", "/v1/hosts/{host}", read, (*call).getHost},
		{"PUT", "/v1/hosts/{host}/deny", admin, (*call).denyHost},
		{"DELETE", "/v1/hosts/{host}/deny", admin, (*call).allowHost},

		{"GET", "/v1/keys", read, list(func(k service.Key) string { return k.ID }, accounts.Keys)},
		{"POST", "/v1/keys", write, (*call).createKey},
		{"DELETE", "/v1/keys/{id}", write, remove(s.revokeKey)},
		{"GET", "/v1/accounts", admin, (*call).listAccounts},
		{"POST", "/v1/accounts", admin, create(func(a service.Account) string { return "/v1/accounts/" + a.ID },
			s.createAccount)},
		{"GET", "/v1/accounts/{id}", read, (*call).getAccount},
		{"PATCH", "/v1/accounts/{id}", admin, edit(accounts.Edit)},
		{"GET", "/v1/plans", read, (*call).listPlans},
		{"PUT", "/v1/plans/{name}", admin, (*call).putPlan},
		{"DELETE", "/v1/plans/{name}", admin, (*call).deletePlan},
		{"GET", "/v1/usage", read, (*call).getUsage},
		{"GET", "/v1/audit", admin, (*call).listAudit},
	}
}

// pageRoutes are the pages for people who are logged in, and what their forms do.
func pageRoutes() []route {
	const (
		read  = service.ScopeRead
		write = service.ScopeWrite
		admin = service.ScopeAdmin
	)
	routes := []route{
		{"GET", "/{$}", read, showCrawls("crawls")},
		{"GET", "/list", read, showCrawls("crawl-groups")},
		{"GET", "/new", read, (*call).showNew},
		{"POST", "/new", write, (*call).postNew},
		{"GET", "/crawls/{id}", read, ofCrawl((*call).showCrawl)},
		{"GET", "/crawls/{id}/head", read, ofCrawl((*call).showHead)},
		{"GET", "/crawls/{id}/live", read, ofCrawl((*call).showLive)},
		{"POST", "/crawls/{id}/edit", write, ofCrawl((*call).postEdit)},
		{"GET", "/crawls/{id}/pages", read, ofCrawl((*call).showPages)},
		{"GET", "/crawls/{id}/page", read, ofCrawl((*call).showPage)},
		{"GET", "/crawls/{id}/problems", read, ofCrawl((*call).showProblems)},
		{"GET", "/crawls/{id}/changes", read, ofCrawl((*call).showChanges)},
		{"GET", "/settings", read, (*call).showAccount},
		{"POST", "/settings/keys", write, (*call).postKey},
		{"POST", "/settings/keys/revoke", write, (*call).postKeyRevoke},
		{"GET", "/settings/audit", admin, (*call).showAudit},
		{"GET", "/settings/schedules", read, (*call).showSchedules},
		{"POST", "/settings/schedules", write, (*call).postSchedule},
		{"POST", "/settings/schedules/edit", write, (*call).postScheduleEdit},
		{"POST", "/settings/schedules/delete", write, (*call).postScheduleDelete},
		{"GET", "/settings/webhooks", read, (*call).showWebhooks},
		{"POST", "/settings/webhooks", write, (*call).postWebhook},
		{"POST", "/settings/webhooks/edit", write, (*call).postWebhookEdit},
		{"POST", "/settings/webhooks/test", write, (*call).postWebhookTest},
		{"POST", "/settings/webhooks/again", write, (*call).postRedeliver},
		{"POST", "/settings/webhooks/delete", write, (*call).postWebhookDelete},
		{"GET", "/settings/hosts", admin, (*call).showHosts},
		{"POST", "/settings/hosts", admin, (*call).postHost},
		{"POST", "/leave", read, (*call).postLeave},
	}
	for _, command := range service.Commands() {
		routes = append(routes, route{"POST", "/crawls/{id}/" + string(command), write, postCommand(command)})
	}
	return routes
}
