package fetch

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/http1"
)

// A Mode says what is wanted of a response.
type Mode uint8

const (
	// Page reads the body of a successful HTML response and brings it to UTF-8. A
	// body over the limit is an error, TooLarge. Other bodies are not read.
	Page Mode = iota
	// Text reads the body of a successful response of any type as it is and cuts it
	// at the limit. It is for robots.txt.
	Text
	// Stream gives the body of a successful response of any type to the caller to
	// read, as it comes. It is for sitemaps and other data of any size.
	Stream
	// Head sends HEAD instead of GET: the answer has no body.
	Head
)

// A Wire is asked before a request is sent.
//
// Behind a proxy it is not asked for an address, because only the proxy knows the address of the host.
//
// Over HTTP/1 it is asked directly before the write. HTTP/2 is written by net/http, and the last moment at which it can
// still be stopped is when it has a connection. There the request may leave some time after Start returns: it waits for
// other requests to be written, and for a free stream if the server lowers its limit at that moment. That time is
// usually under a millisecond, and never longer than the request's time-out.
type Wire interface {
	// Reach is called with the address that is connected to first, before a new connection is made, and with the
	// address of the connection before Start. The two differ if a host has several addresses. It may be called by
	// another goroutine than Start. If it returns an error, nothing is connected or sent, and Do returns an error of
	// the kind Canceled that wraps it. It must not block.
	Reach(addr netip.Addr) error
	// Start is called by the goroutine in Do, before the first byte of the request. The
	// connection is there by then. If Start returns an error, nothing is sent, and Do
	// returns an error of the kind Canceled that wraps it.
	//
	// It is called again if nothing was written and net/http takes another connection.
	// A request that was written is never sent again, so Start is not asked for that.
	//
	// Start must not block. The time that it takes is part of the request's.
	Start() error
}

// A Fetcher makes one request, or more than one if it archives or renders pages. *Client is one. It calls Start of the
// request's Wire before the first byte of each request, and sends nothing if that returns an error: Do then returns an
// *Error of the kind Canceled.
type Fetcher interface {
	Do(ctx context.Context, r Request) (*Response, error)
}

// A Request is one GET, one HEAD, or one POST of a form.
type Request struct {
	URL  weburl.URL
	Mode Mode
	// Form, when not nil, is sent as the body of a POST.
	Form url.Values
	// Timeout is for this request. Zero means the client's.
	Timeout time.Duration
	// MaxBody is the limit of the body, after decompression. Zero means the client's, and for a Stream no limit: its
	// reader keeps nothing, and the time-outs end it.
	MaxBody int64
	// Header is sent besides the client's own headers, and replaces those of the same name.
	Header http.Header
	// Wire is asked before the request is sent. It may be nil.
	Wire Wire
	// NewConn sends the request over a new connection. It is for another attempt
	// after one that failed with Error.Dropped. Connections of HTTP/2, and those to a
	// proxy that reads the request, are shared nevertheless.
	NewConn bool
	// Waits, when not nil, is called before the body is waited for, and what it returns is called after. It is for the
	// reader of a Stream, and called by its goroutine.
	Waits func() (goOn func())
	// Archived is Response.Archived of the last time that the URL was requested, for Options.Archive. It may be empty.
	Archived string
	// NoArchive keeps the request out of Options.Archive. It is for requests that only find out what is there.
	NoArchive bool
}

// Method is that of HTTP.
func (r *Request) Method() string {
	switch {
	case r.Form != nil:
		return http.MethodPost
	case r.Mode == Head:
		return http.MethodHead
	}
	return http.MethodGet
}

const (
	acceptPage     = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
	acceptText     = "text/plain,*/*;q=0.5"
	acceptAny      = "*/*"
	acceptEncoding = "gzip, br, zstd, deflate"
)

// A headers holds the headers of requests in two forms, for net/http and for http1. Neither is changed after it is
// made, so requests share them.
type headers struct {
	header http.Header
	head   *http1.Head
}

// modeHeaders are the headers that requests of each mode send.
type modeHeaders [Head + 1]headers

func newModeHeaders(o Options, more ...http.Header) (all modeHeaders, err error) {
	for mode, accept := range map[Mode]string{Page: acceptPage, Text: acceptText, Stream: acceptAny,
		Head: acceptPage} {
		h := http.Header{"User-Agent": {o.UserAgent}, "Accept": {accept}}
		for _, m := range more {
			merge(h, m)
		}
		all[mode].header = h
		if all[mode].head, err = http1.NewHead(h); err != nil {
			return all, err
		}
	}
	all[Head].head = all[Head].head.Bodiless()
	return all, nil
}

// headersFor are the headers of a request, without those that it brings itself.
// Only origins that the user chose get the private ones.
func (c *Client) headersFor(r *Request) *headers {
	if c.private != nil && c.opts.PrivateTo.Has(r.URL) {
		return &c.private[r.Mode]
	}
	return &c.public[r.Mode]
}

// head is the whole of a request's headers as http1 sends them.
func (c *Client) head(r *Request) (*http1.Head, error) {
	base := c.headersFor(r)
	if len(r.Header) == 0 {
		return base.head, nil
	}
	head, err := http1.NewHead(base.with(r.Header))
	if err == nil && r.Mode == Head {
		head = head.Bodiless()
	}
	return head, err
}

// with adds the headers that a request brings itself.
func (h *headers) with(more http.Header) http.Header {
	if len(more) == 0 {
		return h.header
	}
	header := h.header.Clone()
	merge(header, more)
	return header
}

// Withholds reports whether there are private headers that a request for a URL does
// not get.
func (c *Client) Withholds(u weburl.URL) bool {
	return c.private != nil && !c.opts.PrivateTo.Has(u)
}

// merge sets the headers of extra in h. They cannot change Accept-Encoding, because the client decodes bodies.
func merge(h, extra http.Header) {
	for name, values := range extra {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h["Accept-Encoding"] = []string{acceptEncoding}
}

// httpRequest builds net/http's request without parsing or copying the URL's text. The path is sent byte for byte.
func (c *Client) httpRequest(call *call, r *Request) *http.Request {
	header := c.headersFor(r).with(r.Header)
	u := r.URL
	origin := u.Origin()
	target := &url.URL{
		Scheme:     u.Scheme(),
		Host:       origin[len(u.Scheme())+len("://"):],
		RawQuery:   u.Query(),
		ForceQuery: strings.HasSuffix(u.RequestURI(), "?"),
	}
	switch path := u.Path(); {
	case c.asksProxy(target.Scheme):
		// It wants the whole URL.
		target.Opaque = u.String()[len(u.Scheme())+len(":") : len(origin)+len(path)]
	case strings.HasPrefix(path, "//"):
		// net/url would take it for a host.
		target.Path, target.RawPath = path, path
	default:
		target.Opaque = path
	}
	req := http.Request{
		Method:     r.Method(),
		URL:        target,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header,
		Host:       target.Host,
	}
	if r.Form != nil {
		body := r.Form.Encode()
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(strings.NewReader(body))
	}
	if host := header["Host"]; len(host) > 0 {
		req.Host = host[0]
	}
	return req.WithContext(call.traced())
}

// asksProxy reports whether requests are read by a proxy and not only carried by
// it.
func (c *Client) asksProxy(scheme string) bool {
	return scheme == "http" && isHTTPProxy(c.opts.Proxy)
}

// dialAddr returns the address that net/http would dial.
func dialAddr(r *Request) string {
	port := r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme()]
	}
	return net.JoinHostPort(strings.Trim(r.URL.Host(), "[]"), port)
}
