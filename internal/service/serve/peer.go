package serve

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// remote is the address of the client. It is the address of the connection or, if that is a trusted proxy, the last
// address in X-Forwarded-For that is not a trusted proxy.
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

// network is what one client is counted under: its address, or for IPv6 the network of 64 bits that one customer
// usually has.
func network(addr netip.Addr) netip.Prefix {
	prefix, _ := addr.WithZone("").Prefix(min(addr.BitLen(), 64)) // the length fits
	return prefix
}

// networkOf is the network of a client by what remote says of it.
func networkOf(remote string) string {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return remote
	}
	return network(addr).String()
}

func (s *Server) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
