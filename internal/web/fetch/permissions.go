package fetch

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// Resolve sends requests for a host and port to an address that the user names,
// instead of asking DNS. The address guard lets such an address pass, since
// only the user can have chosen it.
type Resolve struct {
	// Host is a name or an address, "*" for every host, or "*.example.com" for
	// every host below example.com.
	Host string
	// Port is the URL's port; 0 is every port.
	Port uint16
	// Addrs are tried in order.
	Addrs []netip.Addr
	// ToPort is the port to connect to; 0 is the URL's port.
	ToPort uint16
}

// ParseResolve reads the form HOST:PORT:ADDR[,ADDR...][:PORT]. This is the form of curl's option of that name, with an
// optional port to connect to. HOST and PORT may be *, IPv6 addresses stand in brackets.
func ParseResolve(s string) (Resolve, error) {
	fail := func(what string) (Resolve, error) {
		return Resolve{}, fmt.Errorf("parse resolve %q: %s; want HOST:PORT:ADDR[:PORT]", s, what)
	}
	parts, ok := splitColons(s)
	if !ok || len(parts) < 3 || len(parts) > 4 {
		return fail("wrong number of parts")
	}
	r := Resolve{Host: normalHost(parts[0])}
	if r.Host == "" {
		return fail("no host")
	}
	if parts[1] != "*" {
		port, err := strconv.ParseUint(parts[1], 10, 16)
		if err != nil || port == 0 {
			return fail("bad port")
		}
		r.Port = uint16(port)
	}
	for a := range strings.SplitSeq(parts[2], ",") {
		addr, err := netip.ParseAddr(strings.Trim(a, "[]"))
		if err != nil {
			return fail("bad address")
		}
		r.Addrs = append(r.Addrs, addr.Unmap())
	}
	if len(parts) == 4 {
		port, err := strconv.ParseUint(parts[3], 10, 16)
		if err != nil || port == 0 {
			return fail("bad port to connect to")
		}
		r.ToPort = uint16(port)
	}
	if err := r.validate(); err != nil {
		return Resolve{}, err
	}
	return r, nil
}

// splitColons splits at colons outside of brackets.
func splitColons(s string) (parts []string, ok bool) {
	start, depth := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ':':
			if depth == 0 {
				parts = append(parts, s[start:i])
				start = i + 1
			}
		}
		if depth < 0 || depth > 1 {
			return nil, false
		}
	}
	return append(parts, s[start:]), depth == 0
}

func (r Resolve) validate() error {
	if r.Host == "" || len(r.Addrs) == 0 {
		return fmt.Errorf("resolve %q: needs a host and an address", r.Host)
	}
	if rest := strings.TrimPrefix(r.Host, "*."); strings.Contains(rest, "*") && r.Host != "*" {
		return fmt.Errorf("resolve %q: * may be the whole host or its first label", r.Host)
	}
	return nil
}

// weight says how closely r fits a host and port; 0 is not at all. An exact host
// outweighs every pattern, a longer pattern a shorter one, and a port any port.
func (r Resolve) weight(host string, port uint16) int {
	if r.Port != 0 && r.Port != port {
		return 0
	}
	w := 0
	switch suffix, wild := strings.CutPrefix(r.Host, "*"); {
	case wild && strings.HasSuffix(host, suffix):
		w = 2 + 2*len(suffix)
	case r.Host == host:
		w = 1 << 16
	default:
		return 0
	}
	if r.Port != 0 {
		w++
	}
	return w
}

// override returns the entry that fits best, the first of equals.
func override(list []Resolve, host string, port uint16) (Resolve, bool) {
	best, weight := Resolve{}, 0
	for _, r := range list {
		if w := r.weight(host, port); w > weight {
			best, weight = r, w
		}
	}
	return best, weight > 0
}

// normalHost brings a host to the form in which hosts are compared: lower case,
// no brackets, no dot at the end, addresses in their shortest form.
func normalHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// splitAddr splits what net/http asks to dial.
func splitAddr(addr string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("bad port %q", service)
	}
	return normalHost(host), uint16(n), nil
}

// IsPublicHeader reports whether a request header is known to hold no secret, so
// that it may be sent to every host. Every header that is not listed here can be a
// credential, whatever its name.
func IsPublicHeader(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection", "Dnt", "From",
		"Pragma",
		"Priority", "Save-Data", "Te", "Upgrade-Insecure-Requests", "User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "Sec-Ch-") || name == "Sec-Gpc"
}

// An Audience is the set of origins that get Options.PrivateHeader. The zero value is
// empty. It must not change while a Client uses it.
type Audience struct {
	exact map[string]bool // origins as weburl.URL.Origin gives them
	wild  []wildOrigin
}

// A wildOrigin is every host below a domain, on every port of one scheme.
type wildOrigin struct{ scheme, suffix string }

// AddURL adds the origin of a URL. For an http URL on port 80 the https origin of the
// same host belongs to it too, because servers redirect from the one to the other.
func (a *Audience) AddURL(u weburl.URL) {
	a.add(u.Origin())
	if u.Scheme() == "http" && u.Port() == "" {
		a.add("https://" + u.Host())
	}
}

func (a *Audience) add(origin string) {
	if a.exact == nil {
		a.exact = make(map[string]bool)
	}
	a.exact[origin] = true
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
		if scheme != "http" && scheme != "https" || strings.ContainsAny(domain, "*:/@") || domain != "" &&
			domain[0] != '.' {
			return fmt.Errorf("%q is not an origin such as https://www.example.com, or *.example.com for all hosts "+
				"below", weburl.HideUserinfo(text))
		}
		a.wild = append(a.wild, wildOrigin{scheme, normalHost(domain)})
		return nil
	}
	u, err := weburl.Parse(scheme + "://" + rest)
	if err != nil || u.RequestURI() != "/" || strings.Contains(rest, "@") {
		return fmt.Errorf("%q is not an origin such as https://www.example.com, or *.example.com for all hosts below",
			weburl.HideUserinfo(text))
	}
	a.add(u.Origin())
	return nil
}

// Has reports whether the origin of a URL is in the set.
func (a *Audience) Has(u weburl.URL) bool {
	return a.exact[u.Origin()] || slices.ContainsFunc(a.wild, func(w wildOrigin) bool {
		return u.Scheme() == w.scheme && strings.HasSuffix(u.Host(), w.suffix)
	})
}
