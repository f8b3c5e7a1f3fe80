package scope

import (
	"slices"
	"testing"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/state"
)

// Rules are wider for the reasons for which those before may have left out more.
func TestWiderRules(t *testing.T) {
	base := Rules{Scope: "domain", MaxDepth: 2, Include: []string{"/a"}, Exclude: []string{"/x", "/y"},
		SkipExtensions: []string{"pdf"}, OnlyHosts: []string{"a.test"}, Since: "2025-02-01"}
	for name, c := range map[string]struct {
		edit func(*Rules)
		want []Reason
	}{
		"the same": {func(*Rules) {}, nil},
		"all narrower": {func(r *Rules) {
			r.Scope, r.MaxDepth, r.Exclude, r.Since = "prefix", 0, []string{"/y", "/x", "/z"}, "2025-03-01T10:00:00Z"
		}, nil},
		"a greater depth":     {func(r *Rules) { r.MaxDepth = 3 }, []Reason{TooDeep}},
		"no depth limit":      {func(r *Rules) { r.MaxDepth = -1 }, []Reason{TooDeep}},
		"any host":            {func(r *Rules) { r.Scope, r.OnlyHosts = "any", nil }, []Reason{OutOfScope}},
		"another host":        {func(r *Rules) { r.OnlyHosts = []string{"a.test", "b.test"} }, []Reason{OutOfScope}},
		"subdomains":          {func(r *Rules) { r.Scope = "subdomains" }, nil},
		"another expression":  {func(r *Rules) { r.Exclude = []string{"/x", "/z"} }, []Reason{Excluded}},
		"one more to include": {func(r *Rules) { r.Include = []string{"/a", "/b"} }, []Reason{NotIncluded}},
		"nothing to include":  {func(r *Rules) { r.Include = nil }, []Reason{NotIncluded}},
		"every extension":     {func(r *Rules) { r.SkipExtensions = nil }, []Reason{ByExtension}},
		"nofollow, and earlier": {func(r *Rules) { r.FollowNofollow, r.Since = true, "2025-01-31" },
			[]Reason{NotFollowed, OlderThan}},
	} {
		now := base
		c.edit(&now)
		if got := now.Wider(&base); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	all, some := Rules{MaxDepth: -1}, Rules{MaxDepth: -1, Include: []string{"/a"}, OnlyHosts: []string{"a.test"},
		Since: "2025-01-01"}
	if got := some.Wider(&all); got != nil {
		t.Errorf("where there was no list: %v", got)
	}
}

// A page is outdated exactly if links of it were left out for a reason for which the rules became wider since.
func TestOutdatedPages(t *testing.T) {
	var none state.Counters
	leftOut := func(h *History, why ...Reason) []uint64 {
		var skips Skips
		for _, r := range why {
			skips.Add(r)
		}
		return h.AppendLeftOut(nil, &skips)
	}
	h := History{Rules: Rules{Scope: "host", MaxDepth: 1}}
	deep, away, both, plain := leftOut(&h, TooDeep), leftOut(&h, OutOfScope), leftOut(&h, TooDeep, OutOfScope),
		leftOut(&h)
	if len(plain) != 0 || h.Widened() != 0 || h.IsOutdated(both, &none) {
		t.Errorf("in the first run: %v, %d", plain, h.Widened())
	}
	check := func(what string, want ...bool) {
		t.Helper()
		stored, err := h.Fact()
		if err != nil {
			t.Fatal(err)
		}
		read, known, err := ReadHistory(map[string][]byte{stored.Name: stored.Value})
		if err != nil || !known {
			t.Fatalf("%s: %v, %v", what, known, err)
		}
		for i, page := range [][]uint64{deep, away, both, plain} {
			if got := read.IsOutdated(page, &none); got != want[i] {
				t.Errorf("%s: page %d is outdated: %v", what, i, got)
			}
		}
	}
	h.Begin(Rules{Scope: "host", MaxDepth: 0})
	check("narrower", false, false, false, false)
	h.Begin(Rules{Scope: "host", MaxDepth: 2})
	check("deeper", true, false, true, false)
	deep = leftOut(&h, TooDeep)
	check("read again", false, false, true, false)
	h.Begin(Rules{Scope: "domain", MaxDepth: 2})
	check("a wider scope", false, true, true, false)
	h.Begin(Rules{Scope: "domain", MaxDepth: 1})
	h.Begin(Rules{Scope: "domain", MaxDepth: 2})
	check("narrower and back", true, true, true, false)

	h.Later = true
	counted := none
	if h.IsOutdated(plain, &counted) {
		t.Error("a page without a record is outdated though nothing was left out")
	}
	counted.Skips[OutOfScope] = 1
	if !h.IsOutdated(plain, &counted) {
		t.Error("a page without a record is not outdated")
	}
}

// Counts follow the last reading of each page, and those of a page without a record stay.
func TestCountsOfLeftOutLinks(t *testing.T) {
	h := History{Edition: 3}
	var first, second Skips
	first[TooDeep], first[NotHTTP] = 300, 2
	second[NotHTTP], second[Excluded] = 5, 1
	before, now := h.AppendLeftOut(nil, &first), h.AppendLeftOut(nil, &second)
	var counters [len(reasonNames)]uint64
	apply := func(list []frontier.Skip) {
		for _, s := range list {
			if s.Partition != 7 {
				t.Errorf("partition %d", s.Partition)
			}
			counters[s.Reason] += s.Count
		}
	}
	apply(h.Change(nil, 7, nil, before, false))
	if counters != first {
		t.Errorf("counted %v", counters)
	}
	apply(h.Change(nil, 7, before, now, true))
	if counters != second {
		t.Errorf("counted %v after another reading", counters)
	}
	h.Later = true
	if list := h.Change(nil, 7, nil, now, true); list != nil {
		t.Errorf("a page without a record changes the counts by %v", list)
	}
}
