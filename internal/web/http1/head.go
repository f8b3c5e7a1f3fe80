package http1

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// A Head is the part of a request that does not depend on the URL, as bytes. They are
// net/http's bytes, in its order: the host, User-Agent, then the rest by name.
type Head struct {
	host  string // sent instead of the URL's host; "" if there is none
	lines []byte // all but the host's, with the empty line at the end
	close bool   // the connection is to be closed after the answer
	// bodiless means that the method is HEAD: the answer has the headers of a GET and no body.
	bodiless bool
}

// NewHead makes a Head of a request's headers. Like net/http it leaves out those that
// say how a body is sent. Host is sent instead of the URL's host.
func NewHead(header http.Header) (*Head, error) {
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("invalid header field name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("invalid header field value for %q", name) // which may be a secret
			}
		}
	}
	var lines bytes.Buffer
	h := &Head{close: httpguts.HeaderValuesContainsToken(header["Connection"], "close")}
	if host := header["Host"]; len(host) > 0 {
		h.host = host[0]
	}
	if agent := header["User-Agent"]; len(agent) > 0 && agent[0] != "" {
		_ = http.Header{"User-Agent": agent[:1]}.Write(&lines) // to memory
	}
	_ = header.WriteSubset(&lines, map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true,
		"Transfer-Encoding": true, "Trailer": true})
	lines.WriteString("\r\n")
	h.lines = lines.Bytes()
	return h, nil
}

// Bodiless returns the same head with the method HEAD.
func (h *Head) Bodiless() *Head {
	head := *h
	head.bodiless = true
	return &head
}

// Request returns the bytes of a request with this head, whichever protocol it is sent with. Origin and URI are as in
// Request of this package; they are nil if it cannot be sent.
func (h *Head) Request(origin, uri string) []byte {
	_, host, _ := strings.Cut(origin, "://")
	b, err := h.appendRequest(nil, host, uri)
	if err != nil {
		return nil
	}
	return b
}

// appendRequest appends a whole request.
func (h *Head) appendRequest(b []byte, host, uri string) ([]byte, error) {
	if h.host != "" {
		host = h.host
	}
	host, err := cleanHost(host)
	if err != nil {
		return b, err
	}
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return b, fmt.Errorf("control character in %q", uri)
		}
	}
	method := "GET "
	if h.bodiless {
		method = "HEAD "
	}
	b = append(b, method...)
	b = append(b, uri...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	return append(b, h.lines...), nil
}

// cleanHost is what net/http makes of a host before it is sent: in ASCII, without the zone of an address, and empty if
// it is not valid.
func cleanHost(host string) (string, error) {
	host, err := httpguts.PunycodeHostPort(host)
	if err != nil {
		return "", err
	}
	if !httpguts.ValidHostHeader(host) {
		return "", nil
	}
	if end := strings.LastIndexByte(host, ']'); end > 0 && host[0] == '[' {
		if zone := strings.LastIndexByte(host[:end], '%'); zone > 0 {
			host = host[:zone] + host[end:]
		}
	}
	return host, nil
}
