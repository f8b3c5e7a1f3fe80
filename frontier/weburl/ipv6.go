package weburl

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseIPv6 reads the inside of brackets. The standard's grammar is netip's
// without zones; its serialisation differs for IPv4-mapped addresses only, whose
// last four bytes it writes in hex too.
func parseIPv6(s string) (string, error) {
	if strings.IndexByte(s, '%') >= 0 {
		return "", ErrHost
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is6() {
		return "", ErrHost
	}
	if addr.Is4In6() {
		b := addr.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", uint16(b[12])<<8|uint16(b[13]), uint16(b[14])<<8|uint16(b[15])), nil
	}
	return "[" + addr.String() + "]", nil
}
