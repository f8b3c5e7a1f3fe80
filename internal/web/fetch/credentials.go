package fetch

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// BasicAuth is a user's name and password for the origins of an Audience.
type BasicAuth struct {
	Name, Password string
	To             Audience
}

// errBasicAuth does not repeat the text, which is a secret.
var errBasicAuth = errors.New("it must have the form USER:PASSWORD@HOST, and HOST may be an origin such as " +
	"https://www.example.com:8443")

// ParseBasicAuth reads USER:PASSWORD@ORIGIN, with an origin as Audience.Add takes it. The password may contain @ and
// colons. The result has no Audience yet: a caller may know better than https for an origin without a scheme.
func ParseBasicAuth(text string) (auth BasicAuth, origin string, err error) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return auth, "", errBasicAuth
	}
	var ok bool
	auth.Name, auth.Password, ok = strings.Cut(text[:at], ":")
	origin = text[at+1:]
	if !ok || !httpguts.ValidHeaderFieldValue(text) || new(Audience).Add(origin) != nil {
		return BasicAuth{}, "", errBasicAuth
	}
	return auth, origin, nil
}

// value is the value of the header Authorization.
func (a *BasicAuth) value() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Name+":"+a.Password))
}

// authFor is the user of the origin of a URL, or nil.
func (c *Client) authFor(u weburl.URL) *BasicAuth {
	for i := range c.opts.BasicAuth {
		if a := &c.opts.BasicAuth[i]; a.To.Has(u) {
			return a
		}
	}
	return nil
}

// WithholdsUser reports whether a user is known for one URL and not for another.
func (c *Client) WithholdsUser(from, to weburl.URL) bool {
	return c.authFor(from) != nil && c.authFor(to) == nil
}

// WithholdsCookies reports whether given cookies go to one URL and not to another.
func (c *Client) WithholdsCookies(from, to weburl.URL) bool {
	k := c.opts.Cookies
	return k != nil && len(k.Given) > 0 && k.To.Has(from) && !k.To.Has(to)
}

// ownHeader is what a request brings itself, with the headers whose values depend on its URL.
func (c *Client) ownHeader(r *Request) http.Header {
	auth, cookies := c.authFor(r.URL), ""
	if c.opts.Cookies != nil {
		cookies = c.opts.Cookies.header(r.URL)
	}
	if auth == nil && cookies == "" && r.Form == nil {
		return r.Header
	}
	h := http.Header{}
	if r.Form != nil {
		h["Content-Type"] = []string{"application/x-www-form-urlencoded"}
	}
	if auth != nil {
		h["Authorization"] = []string{auth.value()}
	}
	if cookies != "" {
		h["Cookie"] = []string{cookies}
	}
	maps.Copy(h, r.Header)
	return h
}
