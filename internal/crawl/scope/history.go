package scope

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/state"
)

// Rules are the settings by which links and entries of sitemaps are left out. They are stored, as JSON.
type Rules struct {
	Scope          string   `json:"scope"`
	OnlyHosts      []string `json:"only_hosts,omitempty"`
	Include        []string `json:"include,omitempty"`
	Exclude        []string `json:"exclude,omitempty"`
	SkipExtensions []string `json:"skip_extensions,omitempty"`
	MaxDepth       int      `json:"max_depth"`
	FollowNofollow bool     `json:"follow_nofollow,omitempty"`
	CheckExternal  bool     `json:"check_external,omitempty"` // links out of scope are checked
	CheckAssets    bool     `json:"check_assets,omitempty"`   // files are checked
	// MaxChecks is how many checks there may be; 0 if that left nothing out. RulesOf does not know it.
	MaxChecks int    `json:"max_checks,omitempty"`
	Since     string `json:"since,omitempty"`
	Sitemaps  bool   `json:"sitemaps,omitempty"` // they are read
}

// RulesOf are the rules of settings.
func RulesOf(s *config.Settings) Rules {
	return Rules{
		Scope: s.Scope, OnlyHosts: s.OnlyHosts, Include: s.Include, Exclude: s.Exclude,
		SkipExtensions: s.SkipExtensions, MaxDepth: s.MaxDepth,
		FollowNofollow: s.FollowNofollow, CheckExternal: s.CheckExternal, CheckAssets: s.CheckAssets, Since: s.Since,
		Sitemaps: s.Seeds("sitemap"),
	}
}

// Wider returns the reasons for which earlier rules may have left out what r does not. Expressions are compared as
// texts: a different one counts as wider.
func (r *Rules) Wider(before *Rules) []Reason {
	var all []Reason
	add := func(why Reason, wider bool) {
		if wider {
			all = append(all, why)
		}
	}
	more := before.MaxChecks > 0 && r.MaxChecks > before.MaxChecks
	checks := r.CheckExternal && (more || !before.CheckExternal)
	add(OutOfScope, checks || reach(r.Scope) > reach(before.Scope) || admitsMore(r.OnlyHosts, before.OnlyHosts))
	add(Excluded, !containsAll(r.Exclude, before.Exclude))
	add(NotIncluded, admitsMore(r.Include, before.Include))
	add(ByExtension, r.CheckAssets && (more || !before.CheckAssets) ||
		!containsAll(r.SkipExtensions, before.SkipExtensions))
	add(TooDeep, checks || before.MaxDepth >= 0 && (r.MaxDepth < 0 || r.MaxDepth > before.MaxDepth))
	add(NotFollowed, checks || r.FollowNofollow && !before.FollowNofollow)
	add(OlderThan, before.Since != "" && isEarlier(r.Since, before.Since))
	return all
}

// reach orders the kinds of scope. For the same start URLs, each kind contains those before it.
func reach(kind string) int {
	return slices.Index([]string{"prefix", "host", "subdomains", "domain", "any"}, kind)
}

// admitsMore compares lists of what is allowed. An empty list allows everything.
func admitsMore(now, before []string) bool {
	return len(before) > 0 && (len(now) == 0 || !containsAll(before, now))
}

func containsAll(list, items []string) bool {
	return !slices.ContainsFunc(items, func(item string) bool { return !slices.Contains(list, item) })
}

// isEarlier compares dates of the setting since. An empty one is before all others.
func isEarlier(a, b string) bool {
	earlier, _ := config.ParseDate(a) // checked when the settings were loaded; zero if it is empty
	later, _ := config.ParseDate(b)
	return earlier.Before(later)
}

// History is how the rules of a crawl have changed over its runs. With what is recorded of a page it tells whether the
// page has links that were left out by narrower rules than those of today. Such a page is outdated: it is read again.
type History struct {
	Rules Rules `json:"rules"` // of the last run
	// Edition is the number of the rules. It grows when they become wider, by the settings of a run or because a start
	// URL led to a further site, and is recorded with what is read.
	Edition uint64 `json:"edition"`
	// Wider has, for each reason, the edition in which the rules last became wider. Before it they left out more for
	// that reason.
	Wider map[Reason]uint64 `json:"wider,omitempty"`
	// Sitemaps is the edition since which sitemaps are read, if they were not from the beginning.
	Sitemaps uint64 `json:"sitemaps,omitempty"`
	// Later means that an earlier version of the program began the crawl, and did not record which links of a page it
	// left out. Editions then begin with 1, so that a page without a record is known to be from that version.
	Later bool `json:"later,omitempty"`
	// Extends means that what redirects of start URLs bring into the scope begins an edition.
	Extends bool `json:"extends,omitempty"`
}

// factScope is the name of the fact that holds the history.
const factScope = "scope"

// ReadHistory reads the history of a crawl from its facts. It reports false if there is none.
func ReadHistory(facts map[string][]byte) (h History, known bool, err error) {
	text, known := facts[factScope]
	if known {
		if err := json.Unmarshal(text, &h); err != nil {
			return h, true, fmt.Errorf("read by which rules links were left out: %w", err)
		}
	}
	return h, known, nil
}

// Fact is the history as it is stored.
func (h *History) Fact() (frontier.CrawlFact, error) {
	text, err := json.Marshal(h)
	return frontier.CrawlFact{Name: factScope, Value: text}, err
}

// Begin takes the rules of a run that begins.
func (h *History) Begin(now Rules) {
	wider, sitemaps := now.Wider(&h.Rules), now.Sitemaps && !h.Rules.Sitemaps
	h.Rules = now
	if len(wider) > 0 || sitemaps {
		h.widen(h.Edition+1, wider...)
	}
	if sitemaps {
		h.Sitemaps = h.Edition
	}
}

// Extended notes that a start URL led to a further site, which began an edition. Zero is none.
func (h *History) Extended(edition uint64) {
	if edition > h.Wider[OutOfScope] {
		h.widen(edition, OutOfScope)
	}
}

// widen begins an edition by which less is left out for some reasons. Copies of h stay as they are.
func (h *History) widen(edition uint64, why ...Reason) {
	h.Edition = max(h.Edition, edition)
	wider := maps.Clone(h.Wider)
	for _, reason := range why {
		if wider == nil {
			wider = map[Reason]uint64{}
		}
		wider[reason] = edition
	}
	h.Wider = wider
}

// Widened is the edition in which the rules last became wider; 0 if they never did.
func (h *History) Widened() uint64 {
	last := h.Sitemaps
	for _, edition := range h.Wider {
		last = max(last, edition)
	}
	return last
}

// IsOutdated reports whether a page has links that narrower rules left out. LeftOut is what was recorded of the page.
// Counted are the counters of the crawl, or of a part of it that has the page.
func (h *History) IsOutdated(leftOut []uint64, counted *state.Counters) bool {
	edition, skips := readLeftOut(leftOut)
	for why, since := range h.Wider {
		switch {
		case edition >= since || int(why) >= len(skips):
		case skips[why] > 0, h.lacks(leftOut) && counted.Skips[why] > 0:
			return true
		}
	}
	return false
}

// IsNearer reports whether a page has links that were left out because the page was too deep, and that are within the
// depth limit now, as it has this depth: a sitemap lists it, or a start URL leads there. LeftOut is what was recorded
// of the page.
func (h *History) IsNearer(leftOut []uint64, depth uint16) bool {
	_, skips := readLeftOut(leftOut)
	return skips[TooDeep] > 0 && int(depth) < h.Rules.MaxDepth
}

// IsUnseeded reports whether a start page was last read by rules without sitemaps, and sitemaps are read now. They are
// requested when the page is. LeftOut is what was recorded of the page.
func (h *History) IsUnseeded(leftOut []uint64) bool {
	edition, _ := readLeftOut(leftOut)
	return edition < h.Sitemaps
}

// lacks reports whether it is not known what was left out.
func (h *History) lacks(leftOut []uint64) bool { return h.Later && len(leftOut) == 0 }

// AppendLeftOut appends the stored form of what was left out of a page or a sitemap: the edition of the rules, and then
// for each reason its number and how many links it left out. Nothing is appended if all is zero.
func (h *History) AppendLeftOut(list []uint64, skips *Skips) []uint64 {
	begin := len(list)
	list = append(list, h.Edition)
	for why, n := range skips {
		if n > 0 {
			list = append(list, uint64(why), n)
		}
	}
	if len(list) == begin+1 && h.Edition == 0 {
		return list[:begin]
	}
	return list
}

func readLeftOut(list []uint64) (edition uint64, skips Skips) {
	if len(list) == 0 {
		return 0, skips
	}
	for pairs := list[1:]; len(pairs) >= 2; pairs = pairs[2:] {
		if why := pairs[0]; why < uint64(len(skips)) {
			skips[why] += pairs[1]
		}
	}
	return list[0], skips
}

// Change appends to list how a reading of a page or a sitemap changes the counts. Before and now are what the last
// reading recorded, and what this one does. Again means that there was an earlier reading. If that one did not record
// what it left out, the counts stay as they are.
func (h *History) Change(list []frontier.Skip, partition uint8, before, now []uint64, again bool) []frontier.Skip {
	if again && h.lacks(before) {
		return list
	}
	_, had := readLeftOut(before)
	_, has := readLeftOut(now)
	for why := range has {
		has[why] -= had[why] // below zero it wraps around, and lowers the count
	}
	return has.AppendTo(list, partition)
}
