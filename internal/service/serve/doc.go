// Package serve answers requests to the service by HTTP. It has two trees of paths over the same queries: the routes of
// openapi.yaml, which answer with JSON, and the pages of the dashboard. A file has one resource: its query, how the API
// answers, and the page. Errors are documents in the API and pages in the dashboard.
//
// New makes a Server, whose HTTP server answers requests and whose Run sends samples of running crawls to event
// streams. Drain ends the streams and makes /readyz answer 503; it may be called by any goroutine, and again. Every
// request passes, in this order: the check of its Host, the base path, the route, the caller (a key or a session), the
// rate limit, the scope of the route, and only then its handler.
package serve
