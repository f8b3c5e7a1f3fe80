package weburl

import "strings"

// RegistrableDomain returns the part of a canonical host name under which a
// registrant controls all names: its public suffix, by the frozen list, and one
// label more. A host without such a part (an address, a single label or a
// public suffix) is returned whole. A dot at the end, which names the same host,
// is not part of the result.
func RegistrableDomain(host string) string {
	if host == "" || host[0] == '[' || host[0] == '.' {
		return host
	}
	host = strings.TrimSuffix(host, ".")
	if last := len(host) - 1; last < 0 || '0' <= host[last] && host[last] <= '9' && endsInNumber(host) {
		return host
	}
	cut := suffixAt(host) - 1
	if cut <= 0 {
		return host
	}
	label := strings.LastIndexByte(host[:cut], '.') + 1
	if label == cut {
		return host
	}
	return host[label:]
}

// IsLocalhost reports whether a canonical host name means this machine: localhost or a name below it, with or without
// a dot at the end.
func IsLocalhost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
