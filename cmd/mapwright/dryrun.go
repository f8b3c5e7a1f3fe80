package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// dryRun counts what a crawl would fetch. The crawl runs in a temporary directory and requests only robots.txt,
// sitemaps and public indexes.
type dryRun struct {
	mu      sync.Mutex
	urls    int64            // guarded by mu, as are the others
	hosts   map[string]int64 // by host name
	sources map[string]int64 // by source, as in sitemap.jsonl
}

// dryCrawl says what a crawl would fetch, and leaves nothing behind.
func (c *command) dryCrawl(loaded *config.Loaded, starts []datadir.Start) error {
	dir, err := os.MkdirTemp("", "mapwright-dry-run-")
	if err != nil {
		return &exitError{exitFailed, err}
	}
	defer os.RemoveAll(dir)
	c.dry = &dryRun{hosts: map[string]int64{}, sources: map[string]int64{}}
	return c.runCrawl(crawl.Options{Settings: loaded.Settings, Starts: starts, Dir: datadir.Dir(dir),
		WouldFetch: c.dry.add}, loaded.Warnings, nil)
}

// add counts a page. Workers call it at the same time.
func (d *dryRun) add(l *frontier.Link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.urls++
	d.hosts[l.URL.Host()]++
	d.sources[page.SourceName(l.Source)]++
}

// print says what was counted.
func (d *dryRun) print(c *command, s *config.Settings, rep *report.Report) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	not := map[string]int64{} // outcomes of URLs that would not be fetched
	for name, n := range rep.Outcomes {
		if name != page.Excluded.String() {
			not[name] = n
		}
	}
	if c.asJSON {
		return json.NewEncoder(c.out).Encode(struct {
			WouldFetch int64            `json:"would_fetch"`
			Sources    map[string]int64 `json:"sources"`
			Hosts      map[string]int64 `json:"hosts"`
			NotFetched map[string]int64 `json:"not_fetched"` // by outcome
			LeftOut    map[string]int64 `json:"left_out"`    // by reason, as skipped_links of report.json
			MaxURLs    int              `json:"max_urls"`    // 0 is no limit
			Warnings   []string         `json:"warnings"`
		}{d.urls, d.sources, d.hosts, not, rep.SkippedLinks, s.PageCap(), append([]string{}, rep.Warnings...)})
	}
	out := &strings.Builder{}
	t := newTable(out)
	found := "links of these pages are not known before they are fetched"
	if s.MaxDepth == 0 {
		found = "and no links of these pages"
	}
	t.row("Would fetch", "%s (%s); %s", words.Count(d.urls, "URL"), counts(d.sources), found)
	if most := s.PageCap(); most > 0 {
		t.row("Limit", "at most %s are fetched", words.Count(int64(most), "page"))
	}
	hosts := words.ByCount(d.hosts)
	list(t, "Hosts", hosts[:min(len(hosts), shownItems)], 0, func(host string) string {
		return host + " " + humanize.Comma(d.hosts[host])
	})
	if more := len(hosts) - shownItems; more > 0 {
		t.row("", "and %s", words.Count(int64(more), "more host"))
	}
	if len(not) > 0 {
		t.row("Not fetched", "%s", counts(not))
	}
	if len(rep.SkippedLinks) > 0 {
		t.row("Left out", "%s", counts(rep.SkippedLinks))
	}
	t.each("Warning", rep.Warnings)
	if err := t.Flush(); err != nil {
		return err
	}
	requested, more := "", " -v lists the URLs."
	if s.Login != "" {
		requested = " after the login"
	}
	if s.LogLevel == "debug" {
		more = ""
	}
	_, err := fmt.Fprintf(c.out, "Dry run: only robots.txt and sitemaps were requested%s, and nothing was "+
		"written.%s\n%s", requested, more, out)
	return err
}
