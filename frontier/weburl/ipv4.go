package weburl

import (
	"net/netip"
	"strings"
)

// endsInNumber reports whether a domain must be read as an IPv4 address: its
// last label, not counting an empty one at the end, is a number.
func endsInNumber(domain string) bool {
	domain = strings.TrimSuffix(domain, ".")
	last := domain[strings.LastIndexByte(domain, '.')+1:]
	if last == "" {
		return false
	}
	if _, ok := ipv4Number(last); ok {
		return true
	}
	for i := range len(last) {
		if last[i] < '0' || last[i] > '9' {
			return false
		}
	}
	return true
}

// parseIPv4 reads one to four decimal, octal or hexadecimal numbers, the last of
// which fills all bytes that are left.
func parseIPv4(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	var addr uint64
	for i := 0; ; i++ {
		part, rest, more := strings.Cut(s, ".")
		n, ok := ipv4Number(part)
		if !ok || i > 3 {
			return "", ErrHost
		}
		if !more {
			if n >= 1<<(8*(4-i)) {
				return "", ErrHost
			}
			addr |= n
			break
		}
		if n > 255 {
			return "", ErrHost
		}
		addr |= n << (8 * (3 - i))
		s = rest
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), nil
}

// ipv4Number reads a number with an optional 0x or 0 prefix. A number that is too large for an address is valid here,
// and 1<<32 is returned for it.
func ipv4Number(s string) (uint64, bool) {
	if s == "" {
		return 0, false
	}
	base := uint64(10)
	switch {
	case len(s) >= 2 && s[0] == '0' && s[1]|0x20 == 'x':
		s, base = s[2:], 16
	case len(s) >= 2 && s[0] == '0':
		s, base = s[1:], 8
	}
	var n uint64
	for i := range len(s) {
		d := uint64(unhex[s[i]])
		if d >= base {
			return 0, false
		}
		n = min(n*base+d, 1<<32)
	}
	return n, true
}
