package seeding

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// names tells the sources of URLs which hosts exist, as this crawl would find them: by --resolve, then by DNS.
type names struct {
	rules   []fetch.Resolve
	proxied bool
	dns     fetch.Resolver
}

func newNames(s *config.Settings) (*names, error) {
	n := &names{proxied: s.Proxy != "", dns: &net.Resolver{PreferGo: true}}
	for _, text := range s.Resolve {
		rule, err := fetch.ParseResolve(text)
		if err != nil {
			return nil, err
		}
		n.rules = append(n.rules, rule)
	}
	return n, nil
}

// Scheme returns https for a host that exists, and an empty text for one that does not. It returns http if --resolve
// names the host on port 80 and not on 443. Behind a proxy all names count as existing, because the proxy looks them
// up.
func (n *names) Scheme(ctx context.Context, host string) (string, error) {
	switch {
	case n.ruled(host, 443):
		return "https", nil
	case n.ruled(host, 80):
		return "http", nil
	case n.proxied:
		return "https", nil
	}
	addrs, err := n.dns.LookupNetIP(ctx, "ip", host)
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "", nil
	}
	if err != nil || len(addrs) == 0 {
		return "", err
	}
	return "https", nil
}

// ruled says whether --resolve names the host and port.
func (n *names) ruled(host string, port uint16) bool {
	for _, r := range n.rules {
		suffix, wild := strings.CutPrefix(r.Host, "*")
		if (r.Port == 0 || r.Port == port) && (r.Host == host || wild && strings.HasSuffix(host, suffix)) {
			return true
		}
	}
	return false
}
