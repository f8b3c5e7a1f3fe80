package testweb

import (
	"fmt"
	"strconv"
	"strings"
)

// A HostSet names hosts by number: "*" for all, else a comma list of single
// numbers ("3"), ranges ("4-7") and steps ("*/10": every tenth, from 0 on).
type HostSet string

// contains reports whether the set holds a host. The set has been validated.
func (s HostSet) contains(host int) bool {
	for part := range strings.SplitSeq(string(s), ",") {
		lo, hi, step, err := parseHosts(part)
		if err == nil && host >= lo && host <= hi && (host-lo)%step == 0 {
			return true
		}
	}
	return false
}

func (s HostSet) validate(hosts int) error {
	for part := range strings.SplitSeq(string(s), ",") {
		lo, hi, _, err := parseHosts(part)
		switch {
		case err != nil:
			return fmt.Errorf("hosts %q: want *, numbers, ranges like 4-7 or steps like */10", s)
		case lo > hi || lo >= hosts || hi >= hosts && hi != maxNodes:
			return fmt.Errorf("hosts %q: want numbers below %d", s, hosts)
		}
	}
	return nil
}

func parseHosts(part string) (lo, hi, step int, err error) {
	part = strings.TrimSpace(part)
	if rest, ok := strings.CutPrefix(part, "*"); ok {
		if rest == "" {
			return 0, maxNodes, 1, nil
		}
		every, ok := strings.CutPrefix(rest, "/")
		n, err := strconv.ParseUint(every, 10, 31)
		if !ok || err != nil || n == 0 {
			return 0, 0, 0, fmt.Errorf("bad step %q", part)
		}
		return 0, maxNodes, int(n), nil
	}
	from, to, ranged := strings.Cut(part, "-")
	if !ranged {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 31)
	if err != nil {
		return 0, 0, 0, err
	}
	b, err := strconv.ParseUint(to, 10, 31)
	if err != nil {
		return 0, 0, 0, err
	}
	return int(a), int(b), 1, nil
}
