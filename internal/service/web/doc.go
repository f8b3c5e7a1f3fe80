// Package web is the dashboard of the service: pages that the server writes with html/template, a style sheet and small
// scripts, all embedded.
//
// Pages work without scripts. With them, numbers of running crawls follow the event stream of the HTTP API, and parts
// of a page that changed are asked for again. State of a page, such as filters and the place in a list, is in its URL.
// DESIGN.md says how live parts are made.
package web
