package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// 1,000 redirects over ten further ones of the longest URLs would be 90 MB of report. A record of an earlier version
// may lead to a URL of any length.
func TestRedirectsOfReportAreBounded(t *testing.T) {
	const starts, hops = 1000, 9
	s := newSite(t)
	to := func(path string) recrawl.Answer {
		return recrawl.Answer{Outcome: page.Redirect, Status: 302,
			Facts: page.Facts{RedirectTo: s.url(path).String()}}
	}
	hop := func(i int) string { return fmt.Sprintf("%d-%s", i, strings.Repeat("x", page.MaxTarget-100)) }
	var r frontier.Record
	for i := range starts {
		s.link(weburl.URL{}, fmt.Sprint(i), &r)
	}
	for i := range hops {
		s.link(weburl.URL{}, hop(i), &r)
	}
	s.commit(r)
	for i := range starts {
		s.visit(fmt.Sprint(i), to(hop(0)))
	}
	for i := range hops {
		s.visit(hop(i), to(hop(i+1)))
	}
	s.visit("0", to(strings.Repeat("y", 250_000)))
	rep, lines, _ := s.complete(page.Complete)
	text, err := json.Marshal(rep)
	if err != nil || len(text) > 10<<20 {
		t.Errorf("a report of %d bytes: %v", len(text), err)
	}
	list := rep.Redirects
	if list.Total != starts || len(list.Items) < 20 || int64(len(list.Items))+list.Cut != list.Total {
		t.Errorf("%d of %d chains are listed, %d are cut", len(list.Items), list.Total, list.Cut)
	}
	if got := list.Items[0].Hops; len(got) != 1 || lines["0"].RedirectTo != got[0] ||
		!strings.HasPrefix(got[0], "too long, 250015 bytes: https://x.test/yy") {
		t.Errorf("the first leads to %.100q, and its line says %.100q", got, lines["0"].RedirectTo)
	}
	if got := list.Items[1].Hops; len(got) != hops+1 || got[hops] != s.url(hop(hops)).String() {
		t.Errorf("the second has %d hops", len(got))
	}
}

// The pages that link to broken URLs have a bound of their own, and each URL has one.
func TestReferrersAreBounded(t *testing.T) {
	list, size := &List[Broken]{}, 0
	from := strings.Repeat("x", 2000)
	for i := range 1000 {
		e := &problems.Entry{Code: "broken_link", Item: problems.Item{URL: fmt.Sprint("https://a.test/", i)}}
		for range 100 {
			e.Related = append(e.Related, from)
		}
		size += addBroken(list, e, size)
	}
	for i, b := range list.Items {
		n := len(b.LinkedFrom.Items)
		if n < 1 || int64(n)+b.LinkedFrom.Cut != 100 || b.LinkedFrom.Total != 100 {
			t.Fatalf("%d: %d are listed, %d are cut", i, n, b.LinkedFrom.Cut)
		}
	}
	if size > 11<<20 || len(list.Items) != 1000 {
		t.Errorf("%d bytes of pages for %d links", size, len(list.Items))
	}
}

func TestListIsBounded(t *testing.T) {
	l := &List[string]{}
	for range 1200 {
		l.add(strings.Repeat("x", 4096))
	}
	l.bound(func(s *string) int { return len(*s) })
	if len(l.Items) != maxListBytes/4096 || l.Total != 1200 || l.Cut != 1200-int64(len(l.Items)) {
		t.Errorf("%d of %d are listed, %d are cut", len(l.Items), l.Total, l.Cut)
	}
}

// The targets of checks have a bound. Redirects are followed to their end all the same.
func TestTargetsOfChecksAreBounded(t *testing.T) {
	c := &checks{redirects: map[uint64]target{}}
	url := func(i int) string { return fmt.Sprintf("https://a.test/%s/%d", strings.Repeat("x", 8000), i) }
	const n = 6000
	for i := range n {
		c.redirect(xxhash.Sum64String(fmt.Sprint(i)), url(i))
	}
	last := xxhash.Sum64String(url(n - 1))
	c.list = []check{{hash: xxhash.Sum64String(fmt.Sprint(n - 1)), outcome: page.Redirect, status: 301},
		{hash: last, outcome: page.HTTPError, status: 404}}
	if c.list[0].hash > last {
		c.list[0], c.list[1] = c.list[1], c.list[0]
	}
	if c.texts > maxTargets+n*300 {
		t.Errorf("%d bytes of texts", c.texts)
	}
	found, ok := c.of(fmt.Sprint(n - 1))
	if !ok || found.StatusCode != 404 || len(found.RedirectTo) > 300 ||
		!strings.HasPrefix(found.RedirectTo, "too long, 8020 bytes: https://a.test/xxx") {
		t.Errorf("found %+v, %v", found, ok)
	}
	if text := c.redirects[xxhash.Sum64String("0")].text; text != url(0) {
		t.Errorf("the first target has %d bytes", len(text))
	}
}
