package testweb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// scope decides which URLs a crawl may take up, by the start URLs added to it.
type scope struct {
	kind     string
	keys     map[string]bool // what the starts have in common with what is in scope
	prefixes []string
}

func newScope(kind string) (*scope, error) {
	switch kind {
	case "host", "domain", "subdomains", "prefix", "any":
		return &scope{kind: kind, keys: make(map[string]bool)}, nil
	}
	return nil, fmt.Errorf("scope %q: want host, domain, subdomains, prefix or any", kind)
}

// add takes a start into the scope.
func (s *scope) add(w *web, r ref) {
	name := w.names.name(r.host)
	switch s.kind {
	case "host", "subdomains":
		s.keys[name] = true
	case "domain":
		s.keys[registrable(name)] = true
	case "prefix":
		u := w.url(r)
		path, _, _ := strings.Cut(u, "?")
		s.prefixes = append(s.prefixes, path[:strings.LastIndexByte(path, '/')+1])
	}
}

func (s *scope) contains(w *web, r ref) bool {
	switch s.kind {
	case "any":
		return true
	case "prefix":
		u := w.url(r)
		return slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(u, p) })
	}
	name := w.names.name(r.host)
	switch s.kind {
	case "domain":
		return s.keys[registrable(name)]
	case "subdomains":
		for rest, ok := name, true; ok; _, rest, ok = strings.Cut(rest, ".") {
			if s.keys[rest] {
				return true
			}
		}
		return false
	default:
		return s.keys[name]
	}
}

// registrable returns the registrable domain of a host name; an address or a
// name that is itself a suffix stands for itself.
func registrable(name string) string {
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}
