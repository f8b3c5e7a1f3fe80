package fetch

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// IsPublicHeader reports whether a request header is known to hold no secret, so
// that it may be sent to every host. Every header that is not listed here can be a
// credential, whatever its name.
func IsPublicHeader(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection", "Dnt", "From", "Pragma",
		"Priority", "Save-Data", "Te", "Upgrade-Insecure-Requests", "User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "Sec-Ch-") || name == "Sec-Gpc"
}

// An Audience is the set of origins that get Options.PrivateHeader. The zero value is
// empty. It must not change while a Client uses it.
type Audience struct {
	exact map[string]bool // origins as urlnorm.URL.Origin gives them
	wild  []wildOrigin
}

// A wildOrigin is every host below a domain, on every port of one scheme.
type wildOrigin struct{ scheme, suffix string }

// AddURL adds the origin of a URL. For an http URL on port 80 the https origin of the
// same host belongs to it too, because servers redirect from the one to the other.
func (a *Audience) AddURL(u urlnorm.URL) {
	if a.exact == nil {
		a.exact = make(map[string]bool)
	}
	a.exact[u.Origin()] = true
	if u.Scheme() == "http" && u.Port() == "" {
		a.exact["https://"+u.Host()] = true
	}
}

// Add adds [SCHEME://]HOST[:PORT]. The scheme is https if there is none. HOST may be
// "*.example.com" for every host below example.com or "*" for every host, each on
// every port.
func (a *Audience) Add(text string) error {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "https", text
	}
	if domain, wild := strings.CutPrefix(rest, "*"); wild {
		scheme = strings.ToLower(scheme)
		if scheme != "http" && scheme != "https" || strings.ContainsAny(domain, "*:/@") || domain != "" && domain[0] != '.' {
			return fmt.Errorf("%q is not an origin such as https://www.example.com, or *.example.com for all hosts below", urlnorm.HideUserinfo(text))
		}
		a.wild = append(a.wild, wildOrigin{scheme, normalHost(domain)})
		return nil
	}
	u, err := urlnorm.Parse(scheme + "://" + rest)
	if err != nil || u.RequestURI() != "/" || strings.Contains(rest, "@") {
		return fmt.Errorf("%q is not an origin such as https://www.example.com, or *.example.com for all hosts below", urlnorm.HideUserinfo(text))
	}
	if a.exact == nil {
		a.exact = make(map[string]bool)
	}
	a.exact[u.Origin()] = true
	return nil
}

// Has reports whether the origin of a URL is in the set.
func (a *Audience) Has(u urlnorm.URL) bool {
	if a.exact[u.Origin()] {
		return true
	}
	for _, w := range a.wild {
		if u.Scheme() == w.scheme && strings.HasSuffix(u.Host(), w.suffix) {
			return true
		}
	}
	return false
}
