package weburl

import (
	"math"
	"strings"
)

// A URL is an absolute http or https URL in canonical form. The zero value is
// no URL. URLs are comparable: two are equal exactly when their text is.
type URL struct {
	text string
	offsets
}

// An Outline is a URL without its text, for callers who keep the texts of many URLs in one string.
type Outline struct{ at offsets }

// URL makes the URL from its outline and its text.
func (o Outline) URL(text string) URL { return URL{text, o.at} }

// offsets say where in a URL's text its parts are.
type offsets struct {
	hostEnd uint32 // end of the host name
	pathAt  uint32 // the path's first slash; a port lies between
	queryAt uint32 // the first "?", or the end of the text
}

// maxLen bounds base and reference together. It is far above any URL that
// works, and low enough that offsets fit even if every byte becomes an escape.
const maxLen = 1 << 24

// Parse reads an absolute http or https URL.
func Parse(raw string) (URL, error) {
	return URL{}.Resolve(raw)
}

// FromCanonical splits text that is already canonical, as String returns it. It
// checks the outline only and keeps s. It reports false if s cannot have come
// from this package.
func FromCanonical(s string) (URL, bool) {
	hostAt := schemeLen(s)
	if hostAt == 0 || uint64(len(s)) > math.MaxUint32 {
		return URL{}, false
	}
	pathAt := strings.IndexByte(s[hostAt:], '/')
	if pathAt <= 0 {
		return URL{}, false
	}
	pathAt += hostAt
	hostEnd := hostEndIn(s, hostAt, pathAt)
	if hostEnd == hostAt || strings.IndexByte(s, '#') >= 0 {
		return URL{}, false
	}
	queryAt := strings.IndexByte(s[pathAt:], '?')
	if queryAt < 0 {
		queryAt = len(s)
	} else {
		queryAt += pathAt
	}
	return URL{s, offsets{uint32(hostEnd), uint32(pathAt), uint32(queryAt)}}, true
}

// MustCanonical is FromCanonical for text that came from a URL. It panics on any other.
func MustCanonical(text string) URL {
	u, ok := FromCanonical(text)
	if !ok {
		panic("not canonical: " + text)
	}
	return u
}

// schemeLen is the length of "http://" or "https://" if s begins with one.
func schemeLen(s string) int {
	if strings.HasPrefix(s, "https://") {
		return len("https://")
	}
	if strings.HasPrefix(s, "http://") {
		return len("http://")
	}
	return 0
}

// hostEndIn finds where the host name ends in the authority s[hostAt:end].
func hostEndIn(s string, hostAt, end int) int {
	for i := end - 1; i >= hostAt; i-- {
		switch s[i] {
		case ':':
			return i
		case ']':
			return end
		}
		if s[i] < '0' || s[i] > '9' {
			break
		}
	}
	return end
}

// IsZero reports whether u is the zero value, which is no URL.
func (u URL) IsZero() bool { return u.text == "" }

// String returns the canonical text.
func (u URL) String() string { return u.text }

// hostAt is where the host begins.
func (u URL) hostAt() int {
	if u.text == "" {
		return 0
	}
	return len(u.Scheme()) + len("://")
}

// Scheme returns "http" or "https".
func (u URL) Scheme() string {
	switch {
	case u.text == "":
		return ""
	case u.text[4] == 's':
		return u.text[:5]
	default:
		return u.text[:4]
	}
}

// Host returns the host name without its port, an IPv6 address in brackets. The pace of requests is kept per host name.
func (u URL) Host() string { return u.text[u.hostAt():u.hostEnd] }

// Port returns the port in decimal, or "" for the scheme's default.
func (u URL) Port() string {
	if u.hostEnd == u.pathAt {
		return ""
	}
	return u.text[u.hostEnd+1 : u.pathAt]
}

// Origin returns scheme, host and port as "scheme://host[:port]", the unit that
// a robots.txt belongs to.
func (u URL) Origin() string { return u.text[:u.pathAt] }

// Path returns the path, which begins with a slash.
func (u URL) Path() string { return u.text[u.pathAt:u.queryAt] }

// Query returns what follows the first "?". It is empty both without a query
// and with an empty one; RequestURI tells these apart.
func (u URL) Query() string {
	if int(u.queryAt) == len(u.text) {
		return ""
	}
	return u.text[u.queryAt+1:]
}

// RequestURI returns path and query as they are sent to the server.
func (u URL) RequestURI() string { return u.text[u.pathAt:] }
