package fetch

import (
	"fmt"
	"net/netip"
	"syscall"
)

// An AddressError says that an address was not connected to because it is not
// public.
type AddressError struct {
	Host   string     // as in the URL; "" if the guard did not know it
	Addr   netip.Addr // zero if the host is one that means this machine by name
	Reason string
}

func (e *AddressError) Error() string {
	const rule = "not a public address (%s), and --allow-private is not set"
	switch {
	case !e.Addr.IsValid():
		return fmt.Sprintf("%s is "+rule, e.Host, e.Reason)
	case e.Host == "" || e.Host == e.Addr.Unmap().String():
		return fmt.Sprintf("%s is "+rule, e.Addr, e.Reason)
	}
	return fmt.Sprintf("%s has the address %s, which is "+rule, e.Host, e.Addr, e.Reason)
}

// Guard is a net.Dialer's Control: it sees the address that the system is
// about to connect to, after every lookup, so that no answer of DNS can change
// between check and use. It refuses addresses that are not public.
func Guard(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Reason: fmt.Sprintf("unreadable address %q", address)}
	}
	if reason := NotPublic(ap.Addr()); reason != "" {
		return &AddressError{Addr: ap.Addr(), Reason: reason}
	}
	return nil
}

// NotPublic says why an address is not one of the public internet, or "" if it is
// one. Addresses that carry an IPv4 address inside are judged by it too, because
// a gateway may forward them there.
func NotPublic(addr netip.Addr) string {
	if !addr.IsValid() {
		return "no address"
	}
	if addr.Zone() != "" {
		return "address with a zone"
	}
	addr = addr.Unmap()
	if addr.Is4() {
		return notPublic4(addr)
	}
	return notPublic6(addr)
}

type block struct {
	prefix netip.Prefix
	reason string
}

// blocks4 are the blocks of IANA's special-purpose registry that are not globally
// reachable, and multicast. It is a function because there are no globals here;
// dialling is rare enough for it.
func blocks4() []block {
	return []block{
		{pfx(0, 0, 0, 0, 8), "unspecified"},
		{pfx(10, 0, 0, 0, 8), "private"},
		{pfx(100, 64, 0, 0, 10), "carrier-grade NAT"},
		{pfx(127, 0, 0, 0, 8), "loopback"},
		{pfx(169, 254, 0, 0, 16), "link-local"},
		{pfx(172, 16, 0, 0, 12), "private"},
		{pfx(192, 0, 0, 0, 24), "reserved for protocols"},
		{pfx(192, 0, 2, 0, 24), "documentation"},
		{pfx(192, 88, 99, 0, 24), "6to4 relay"},
		{pfx(192, 168, 0, 0, 16), "private"},
		{pfx(198, 18, 0, 0, 15), "benchmarking"},
		{pfx(198, 51, 100, 0, 24), "documentation"},
		{pfx(203, 0, 113, 0, 24), "documentation"},
		{pfx(224, 0, 0, 0, 4), "multicast"},
		{pfx(240, 0, 0, 0, 4), "reserved"},
	}
}

func pfx(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

func notPublic4(addr netip.Addr) string {
	for _, b := range blocks4() {
		if b.prefix.Contains(addr) {
			return b.reason
		}
	}
	return ""
}

// notPublic6 lets only global unicast addresses pass, 2000::/3, and the well-known
// NAT64 prefix, by which hosts without IPv4 reach public IPv4 addresses.
func notPublic6(addr netip.Addr) string {
	b := addr.As16()
	in := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(addr) }
	switch {
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsLoopback():
		return "loopback"
	case addr.IsMulticast():
		return "multicast"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case in("fc00::/7"):
		return "private"
	case in("fec0::/10"):
		return "site-local"
	case in("::/96"):
		return "IPv4-compatible"
	case in("64:ff9b::/96"):
		return inside("NAT64", b[12:16])
	case in("64:ff9b:1::/48"):
		return "NAT64 of a local network"
	case !in("2000::/3"):
		return "reserved"
	case in("2001:db8::/32"), in("3fff::/20"):
		return "documentation"
	case in("2001:2::/48"):
		return "benchmarking"
	case in("2001:10::/28"), in("2001:20::/28"):
		return "identifier, not an address"
	case in("2001::/32"):
		client := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		if reason := inside("Teredo", b[4:8]); reason != "" {
			return reason
		}
		return inside("Teredo", client[:])
	case in("2002::/16"):
		return inside("6to4", b[2:6])
	}
	if b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return inside("ISATAP", b[12:16])
	}
	return ""
}

// inside judges an IPv4 address that an IPv6 address carries.
func inside(kind string, b []byte) string {
	addr := netip.AddrFrom4([4]byte(b))
	if reason := notPublic4(addr); reason != "" {
		return fmt.Sprintf("%s of %s, %s", kind, addr, reason)
	}
	return ""
}
