package config

import (
	"fmt"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// A HostSet is a set of host names, and of all hosts below some domains. The zero value is empty.
type HostSet struct {
	exact map[string]bool
	below map[string]bool // suffixes that begin with a dot, such as .example.com
}

// maxOnlyHosts bounds the setting only-hosts.
const maxOnlyHosts = 100_000

// NormalHosts brings hosts such as example.com, and *.example.com for all hosts below it, to the one form in which
// hosts are compared. A dot at the end does not count: "example.com." is the same server.
func NormalHosts(patterns []string) ([]string, error) {
	var out []string
	for _, text := range patterns {
		domain, wild := strings.CutPrefix(text, "*.")
		u, err := weburl.Parse("http://" + domain + "/")
		host := strings.Clone(strings.TrimSuffix(u.Host(), "."))
		if address := strings.HasPrefix(domain, "[") && strings.HasSuffix(domain, "]"); err != nil || host == "" ||
			strings.HasSuffix(host, ".") || strings.ContainsAny(domain, "*/\\@?#") ||
			!address && strings.Contains(domain, ":") {
			return nil, fmt.Errorf("%q is not a host such as www.example.com, or *.example.com for all hosts below",
				text)
		}
		if wild {
			host = "*." + host
		}
		out = append(out, host)
	}
	return out, nil
}

// NewHostSet reads hosts such as example.com, and *.example.com for all hosts below it.
func NewHostSet(patterns []string) (HostSet, error) {
	s := HostSet{exact: map[string]bool{}, below: map[string]bool{}}
	hosts, err := NormalHosts(patterns)
	for _, host := range hosts {
		if suffix, wild := strings.CutPrefix(host, "*"); wild {
			s.below[suffix] = true
		} else {
			s.exact[host] = true
		}
	}
	return s, err
}

// IsEmpty reports whether no host is in the set.
func (s *HostSet) IsEmpty() bool { return len(s.exact) == 0 && len(s.below) == 0 }

// Has reports whether a host, in the form of weburl.URL.Host, is in the set. A dot at its end does not count.
func (s *HostSet) Has(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return s.exact[host] || s.hasBelow(host)
}

func (s *HostSet) hasBelow(host string) bool {
	if len(s.below) == 0 {
		return false
	}
	for i := range len(host) {
		if host[i] == '.' && s.below[host[i:]] {
			return true
		}
	}
	return false
}

// Covers reports whether every host of another set is in this one.
func (s *HostSet) Covers(other HostSet) bool {
	for host := range other.exact {
		if !s.Has(host) {
			return false
		}
	}
	for suffix := range other.below {
		if !s.hasBelow(suffix) {
			return false
		}
	}
	return true
}

func checkHostPattern(text string) error {
	_, err := NewHostSet([]string{text})
	return err
}
