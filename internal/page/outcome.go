package page

import "fmt"

// Outcome is what became of a URL. The numbers are stored: append, never reorder.
type Outcome uint8

// The outcomes. Pending is the zero value: nothing has become of the URL yet.
const (
	Pending Outcome = iota
	OK
	Redirect
	RedirectLoop
	HTTPError
	Throttled
	BlockedByRobots
	Timeout
	DNSError
	ConnectError
	TLSError
	ReadError
	RefusedAddress
	TooLarge
	Trap
	Crashed
	HostBlocked
	Excluded
	numOutcomes
)

var names = [numOutcomes]string{
	Pending: "pending", OK: "ok", Redirect: "redirect", RedirectLoop: "redirect_loop", HTTPError: "http_error",
	Throttled:       "throttled",
	BlockedByRobots: "blocked_by_robots", Timeout: "timeout", DNSError: "dns_error", ConnectError: "connect_error",
	TLSError:  "tls_error",
	ReadError: "read_error", RefusedAddress: "refused_address", TooLarge: "too_large", Trap: "trap", Crashed: "crashed",
	HostBlocked: "host_blocked",
	Excluded:    "excluded",
}

// String is the outcome's name in sitemap.jsonl.
func (o Outcome) String() string {
	if o < numOutcomes {
		return names[o]
	}
	return fmt.Sprintf("outcome_%d", uint8(o))
}

// ParseOutcome finds an outcome by its name.
func ParseOutcome(name string) (Outcome, bool) {
	for i, n := range names {
		if n == name {
			return Outcome(i), true
		}
	}
	return 0, false
}

// Outcomes are all of them, in the order of their numbers.
func Outcomes() []Outcome {
	all := make([]Outcome, numOutcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}
