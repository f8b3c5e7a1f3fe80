package scope

import (
	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// Reason says why a URL that was found is not crawled. Such URLs are counted by reason, not listed. The numbers are
// stored: a new reason gets the next one, and none is given another meaning.
type Reason uint8

// The reasons. InScope is zero, and is never counted.
const (
	InScope       Reason = 0
	OutOfScope    Reason = 1
	Excluded      Reason = 2
	NotIncluded   Reason = 3
	ByExtension   Reason = 4
	TooDeep       Reason = 5
	NotFollowed   Reason = 6
	NotHTTP       Reason = 7
	TooLong       Reason = 8
	OlderThan     Reason = 9
	HostLimit     Reason = 10
	CrossSiteSeed Reason = 11
	Trapped       Reason = 12 // of a trap that has enough URLs on record already
	CheckLimit    Reason = 13 // it is outside of the scope, and not checked either
)

// reasonNames are the names in reports and metrics. Each reason has one.
var reasonNames = [...]string{
	OutOfScope:    "out_of_scope",
	Excluded:      "excluded",
	NotIncluded:   "not_included",
	ByExtension:   "extension",
	TooDeep:       "too_deep",
	NotFollowed:   "nofollow",
	NotHTTP:       "not_http",
	TooLong:       "too_long",
	OlderThan:     "older",
	HostLimit:     "max_urls_per_host",
	CrossSiteSeed: "sitemap_cross_site",
	Trapped:       "trap",
	CheckLimit:    "max_checks",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Reasons are all reasons for which a link is not followed.
func Reasons() []Reason {
	var all []Reason
	for r := OutOfScope; int(r) < len(reasonNames); r++ {
		all = append(all, r)
	}
	return all
}

// Skips counts the links of one page, sitemap or index that are not followed. They are recorded together with the fact
// that it was read, so that a crawl that is killed and reads it again counts each link once.
type Skips [len(reasonNames)]uint64

func (c *Skips) Add(why Reason) { c[why]++ }

// AppendTo appends the counts that are not zero, as those of a partition.
func (c *Skips) AppendTo(list []frontier.Skip, partition uint8) []frontier.Skip {
	for why, n := range c {
		if n > 0 {
			list = append(list, frontier.Skip{Partition: partition, Reason: uint8(why), Count: n})
		}
	}
	return list
}

// SkippedSince returns how many links were not followed between two states of the counters, by the name of the reason.
func SkippedSince(now, before *state.Counters) map[string]int64 {
	out := map[string]int64{}
	for code, n := range now.Skips {
		if n := int64(n - before.Skips[code]); n > 0 { // below zero, if links were followed that were left out before
			out[Reason(code).String()] += n
		}
	}
	return out
}
