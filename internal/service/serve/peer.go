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
		addr = next.Unmap().WithZone("") // a zone is a name that only its machine knows, of any length
	}
	return addr.String()
}

// clientOf names the client at an address. One client is an IPv4 address, or an IPv6 network of 48 bits, which is the
// largest that one customer usually has. Others have 56 or 64 bits: the names of these networks follow, and such
// networks share what the client has.
func clientOf(addr netip.Addr) (names []string) {
	if addr = addr.Unmap(); addr.Is4() {
		return []string{addr.String()}
	}
	for _, bits := range []int{48, 56, 64} {
		network, _ := addr.WithZone("").Prefix(bits) // the length fits
		names = append(names, network.String())
	}
	return names
}

// clientAt is the client by what remote says of it.
func clientAt(remote string) []string {
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return []string{remote}
	}
	return clientOf(addr)
}

func (s *Server) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
