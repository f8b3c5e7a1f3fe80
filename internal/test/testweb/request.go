package testweb

import (
	"bytes"
	"strconv"
)

// request is the head of a request, as slices into its connection's buffer.
type request struct {
	uri   []byte // path and query
	host  []byte // host and port
	agent []byte // User-Agent
	// noneMatch and modifiedSince are the conditions, nil if there are none.
	noneMatch     []byte
	modifiedSince []byte
	bodyLeft      int // bytes of body that follow the head
	get, head     bool
	old           bool // HTTP/1.0
	close         bool // the client will not reuse the connection
	gzip          bool // the client accepts gzip
}

// conditional reports whether the request has a condition.
func (r *request) conditional() bool { return r.noneMatch != nil || r.modifiedSince != nil }

// parse reads a head that ends with an empty line. It reports false if that is
// not a request it can answer.
func (r *request) parse(b []byte) bool {
	*r = request{}
	line, b, ok := bytes.Cut(b, []byte("\r\n"))
	method, rest, ok1 := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok1 || !ok2 || len(target) == 0 {
		return false
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		r.old, r.close = true, true
	default:
		return false
	}
	r.get = string(method) == "GET"
	r.head = string(method) == "HEAD"
	for len(b) > 2 {
		line, b, _ = bytes.Cut(b, []byte("\r\n"))
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			return false
		}
		value := bytes.TrimSpace(line[colon+1:])
		switch name := line[:colon]; {
		case equalFold(name, "host"):
			r.host = value
		case equalFold(name, "user-agent"):
			r.agent = value
		case equalFold(name, "accept-encoding"):
			r.gzip = bytes.Contains(value, []byte("gzip"))
		case equalFold(name, "if-none-match"):
			if r.noneMatch != nil { // two lines are one list
				value = bytes.Join([][]byte{r.noneMatch, value}, []byte(", "))
			}
			r.noneMatch = value
		case equalFold(name, "if-modified-since"):
			r.modifiedSince = value
		case equalFold(name, "connection"):
			if equalFold(value, "close") {
				r.close = true
			} else if equalFold(value, "keep-alive") {
				r.close = false
			}
		case equalFold(name, "content-length"):
			n, err := strconv.Atoi(string(value))
			if err != nil || n < 0 {
				return false
			}
			r.bodyLeft = n
		case equalFold(name, "transfer-encoding"):
			return false // no client under test sends one
		}
	}
	if target[0] != '/' { // the absolute form, as sent to a proxy
		_, after, ok := bytes.Cut(target, []byte("://"))
		if !ok {
			return false
		}
		slash := bytes.IndexByte(after, '/')
		if slash < 0 {
			return false
		}
		r.host, target = after[:slash], after[slash:]
	}
	r.uri = target
	return true
}
