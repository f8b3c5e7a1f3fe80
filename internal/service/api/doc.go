// Package api is the HTTP interface of the service: the routes of openapi.yaml, who may use them, and the documents
// that say what is wrong.
//
// New makes a Server, whose HTTP server answers requests and whose Run sends samples of running crawls to event
// streams. Drain ends the streams and makes /readyz answer 503; it may be called by any goroutine, and again. Every
// request passes, in this order: the check of its Host, the base path, the route, the caller (a key or a session), the
// rate limit, the scope of the route, and only then its handler.
package api
