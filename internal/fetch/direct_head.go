package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A head is the part of a request that does not depend on the URL, as bytes. They are
// net/http's bytes, in its order: the host, User-Agent, then the rest by name.
type head struct {
	from  http.Header
	host  string // instead of the URL's; "" if that
	lines []byte // all but the host's, with the empty line at the end
	close bool   // the connection is to be closed after the answer
}

// ownLines are not written from a header: net/http has its own mind about them.
func ownLines() map[string]bool {
	return map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}
}

func newHead(header http.Header) head {
	var lines bytes.Buffer
	h := head{from: header, host: first(header["Host"]), close: httpguts.HeaderValuesContainsToken(header["Connection"], "close")}
	if agent := first(header["User-Agent"]); agent != "" {
		_ = http.Header{"User-Agent": {agent}}.Write(&lines) // to memory
	}
	_ = header.WriteSubset(&lines, ownLines())
	lines.WriteString("\r\n")
	h.lines = lines.Bytes()
	return h
}

// modeHeads are the heads that requests of each mode send.
type modeHeads [Stream + 1]head

func newModeHeads(headers modeHeaders) (heads modeHeads) {
	for mode, h := range headers {
		heads[mode] = newHead(h)
	}
	return heads
}

// head returns what to send with a request.
func (d *direct) head(r *Request) (*head, error) {
	base := &d.heads[r.Mode]
	if d.private != nil && d.privateTo.Has(r.URL) {
		base = &d.private[r.Mode]
	}
	if len(r.Header) == 0 {
		return base, nil
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("invalid header field name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("invalid header field value for %q", name) // which may be a secret
			}
		}
	}
	header := base.from.Clone()
	merge(header, r.Header)
	h := newHead(header)
	return &h, nil
}

// appendRequest appends a whole request.
func (h *head) appendRequest(b []byte, u urlnorm.URL) ([]byte, error) {
	host := h.host
	if host == "" {
		host = u.Origin()[len(u.Scheme())+len("://"):]
	}
	host, err := cleanHost(host)
	if err != nil {
		return b, err
	}
	uri := u.RequestURI()
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return b, fmt.Errorf("control character in %q", uri)
		}
	}
	b = append(b, "GET "...)
	b = append(b, uri...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	return append(b, h.lines...), nil
}

// cleanHost is what net/http makes of a host before it is sent: in ASCII, without
// the zone of an address, and empty rather than harmful.
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
