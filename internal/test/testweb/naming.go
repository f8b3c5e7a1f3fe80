package testweb

import (
	"fmt"
	"strconv"
	"strings"
)

// naming turns a host's number into its name and back, without a table.
type naming struct {
	prefix, suffix string // lower case
	numbered       bool
	hosts          int
}

func newNaming(pattern string, hosts int) (naming, error) {
	prefix, suffix, numbered := strings.Cut(strings.ToLower(pattern), "%d")
	n := naming{prefix: prefix, suffix: suffix, numbered: numbered, hosts: hosts}
	if !numbered && hosts > 1 {
		return n, fmt.Errorf("host_name %q: want a %%d when there is more than one host", pattern)
	}
	name := n.name(0)
	ok := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	if !ok {
		return n, fmt.Errorf("host_name %q: want letters, digits, dots and hyphens around one %%d", pattern)
	}
	return n, nil
}

func (n naming) append(dst []byte, host int) []byte {
	dst = append(dst, n.prefix...)
	if n.numbered {
		dst = strconv.AppendInt(dst, int64(host), 10)
	}
	return append(dst, n.suffix...)
}

func (n naming) name(host int) string {
	return string(n.append(nil, host))
}

// lookup finds the host that a Host header names, with or without a port.
func (n naming) lookup(header []byte) (host int, ok bool) {
	for i := len(header) - 1; i >= 0 && (header[i] == ':' || isDigit(header[i])); i-- {
		if header[i] == ':' {
			header = header[:i]
			break
		}
	}
	p, s := len(n.prefix), len(n.suffix)
	if len(header) < p+s || !equalFold(header[:p], n.prefix) || !equalFold(header[len(header)-s:], n.suffix) {
		return 0, false
	}
	digits := header[p : len(header)-s]
	if !n.numbered {
		return 0, len(digits) == 0
	}
	host, ok = parseIndex(digits)
	return host, ok && host < n.hosts
}

// parseIndex reads a number as strconv writes it: no sign, no leading zero, no
// more than 32 bits. Anything else is another URL, not another spelling.
func parseIndex(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 10 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	v := 0
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, v <= maxNodes
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// equalFold reports whether b is lower, but for the case of ASCII letters.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
