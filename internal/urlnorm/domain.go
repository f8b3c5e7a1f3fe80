package urlnorm

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// RegistrableDomain returns the part of a canonical host name that somebody
// registered: its public suffix and one label more. What has no such part, an
// address, a single label or a public suffix, is its own. A dot at the end,
// which names the same host, is not part of the answer.
func RegistrableDomain(host string) string {
	if host == "" || host[0] == '[' || host[0] == '.' {
		return host
	}
	host = strings.TrimSuffix(host, ".")
	if last := len(host) - 1; last < 0 || '0' <= host[last] && host[last] <= '9' && endsInNumber(host) {
		return host
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	cut := len(host) - len(suffix) - 1
	if cut <= 0 {
		return host
	}
	label := strings.LastIndexByte(host[:cut], '.') + 1
	if label == cut {
		return host
	}
	return host[label:]
}
