package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/extsort"
	"github.com/mapwright/mapwright/internal/page"
)

// redirectLine is the line of a URL that redirects, as an export gives it.
func redirectLine(url string, leads map[string]string, source uint8) *page.Line {
	l := &page.Line{URL: weburl.MustCanonical(url), ParentURL: "found on " + url, Source: page.SourceName(source),
		Outcome: page.Redirect.String()}
	l.RedirectTo = leads[url]
	seen := map[string]bool{url: true}
	for to := leads[url]; to != "" && len(l.Hops) <= scope.MaxHops; to = leads[to] {
		l.Hops = append(l.Hops, to)
		if seen[to] || len(l.Hops) > scope.MaxHops && leads[to] != "" {
			l.Outcome = page.RedirectLoop.String()
			break
		}
		seen[to] = true
	}
	return l
}

// wantedLists are the chains and loops by a search in memory.
func wantedLists(lines []*page.Line, leads map[string]string) (chains, loops []string) {
	target := map[string]bool{}
	for from, to := range leads {
		target[to] = target[to] || from != to
	}
	listed := map[string]bool{}
	for _, l := range lines {
		if target[l.URL.String()] {
			continue
		}
		if l.Outcome == page.RedirectLoop.String() || len(l.Hops) > scope.MaxHops {
			loops = append(loops, l.URL.String())
		} else {
			chains = append(chains, l.URL.String())
		}
		for at := l.URL.String(); at != "" && !listed[at]; at = leads[at] {
			listed[at] = true
		}
	}
	for _, entered := range []bool{true, false} {
		for _, l := range lines {
			if listed[l.URL.String()] || entered != (l.Source != page.SourceName(page.SourceRedirect)) {
				continue
			}
			loops = append(loops, l.URL.String())
			for at := l.URL.String(); !listed[at]; at = leads[at] {
				listed[at] = true
			}
		}
	}
	return chains, loops
}

// Chains and loops are those of a search in memory, whether the redirects fit into memory or are sorted in files.
func TestRedirectLists(t *testing.T) {
	urls := func(l *List[Chain]) (all []string) {
		if l == nil {
			return nil
		}
		for i, c := range l.Items {
			if c.FoundOn != "found on "+c.URL || len(c.Hops) != 1 || c.Hops[0] == "" {
				t.Errorf("item %d is %+v", i, c)
			}
			all = append(all, c.URL)
		}
		if l.Total != int64(len(all)) {
			t.Errorf("%d in all, %d listed", l.Total, len(all))
		}
		return all
	}
	rings := 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(100)
		name := func(i int) string { return fmt.Sprintf("https://a.test/%03d", i) }
		leads := map[string]string{}
		if seed%2 == 0 { // one target each, at random: trees that lead into loops
			for i := range n {
				leads[name(i)] = name(random.IntN(n + n/10))
			}
		} else { // loops that nothing leads to, some of them longer than redirects are followed, and few that something leads to
			order := random.Perm(n)
			for len(order) > 0 {
				k := 1 + random.IntN(min(len(order), 40))
				for i := range k {
					leads[name(order[i])] = name(order[(i+1)%k])
				}
				order = order[k:]
			}
			for range random.IntN(3) {
				leads[name(random.IntN(n))] = name(random.IntN(n))
			}
		}
		var lines []*page.Line
		for i := range n {
			source := page.SourceLink
			if random.IntN(2) == 0 {
				source = page.SourceRedirect
			}
			lines = append(lines, redirectLine(name(i), leads, source))
		}
		chains, loops := wantedLists(lines, leads)
		for _, limit := range []int{14_000, 8 << 20} {
			r := newRedirects(extsort.Space{Dir: t.TempDir(), Pattern: "sort-*", Bytes: limit})
			defer r.close()
			for _, l := range lines {
				r.see(l)
			}
			gotChains, gotLoops, err := r.lists(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := urls(gotChains); !slices.Equal(got, chains) {
				t.Errorf("seed %d, limit %d: the chains are %q, want %q", seed, limit, got, chains)
			}
			if got := urls(gotLoops); !slices.Equal(got, loops) {
				t.Errorf("seed %d, limit %d: the loops are %q, want %q", seed, limit, got, loops)
			}
		}
		rings += len(loops)
	}
	if rings < 200 {
		t.Errorf("only %d loops were tested", rings)
	}
}
