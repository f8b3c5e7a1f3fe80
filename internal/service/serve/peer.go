package serve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// hostCheck tells the host names that the server answers to. Otherwise a web page could use the API by a name of its
// own that it makes resolve to this machine (DNS rebinding). Addresses and localhost are always accepted: they cannot
// be made to resolve to another machine.
type hostCheck struct{ names []string }

func newHostCheck(listen string, public *url.URL) hostCheck {
	c := hostCheck{names: []string{"localhost"}}
	if name, _, err := net.SplitHostPort(listen); err == nil && name != "" && !net.ParseIP(name).IsUnspecified() {
		c.names = append(c.names, name)
	} else if name, err := os.Hostname(); err == nil {
		c.names = append(c.names, name)
	}
	if public != nil {
		c.names = append(c.names, public.Hostname())
	}
	return c
}

func (c hostCheck) allows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	return net.ParseIP(name) != nil || slices.ContainsFunc(c.names,
		func(a string) bool { return strings.EqualFold(a, name) })
}

// remote is the address of the client: that of the connection or, if that is a trusted proxy, the last one in
// X-Forwarded-For that is not.
func (s *Server) remote(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusted(addr) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = next.Unmap()
	}
	return addr.String()
}

func (s *Server) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
