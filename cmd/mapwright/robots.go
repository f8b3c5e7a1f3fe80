package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/robotscache"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/web/robots"
)

// robotsDecision is what 'robots --json' prints for each URL.
type robotsDecision struct {
	URL        string   `json:"url"`
	Allowed    bool     `json:"allowed"`
	Rule       string   `json:"rule"`
	Line       int      `json:"line"`
	Group      string   `json:"group"`
	CrawlDelay *float64 `json:"crawl_delay"` // seconds; null if the file gives none
	Sitemaps   []string `json:"sitemaps"`
	Confidence string   `json:"confidence"`
	Error      string   `json:"error,omitempty"`

	assumption string // why there are no rules, and what holds then
}

func newRobots(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "robots URL...",
		Short: "Explain what robots.txt says of URLs: the group, the rule that matched, the crawl delay",
	})
	file := c.Flags().String("file", "", "read robots.txt from a `file` instead of the site")
	agent := c.Flags().String("agent", "", "ask for another `crawler`")
	c.addJSON("print one JSON object per URL")
	c.addSettings(config.Fetching, config.Access, config.Robots)
	return c.does(func(args []string) error {
		if len(args) == 0 {
			return usage("robots takes one or more URLs")
		}
		loaded, err := c.load()
		if err != nil {
			return err
		}
		token := cmp.Or(*agent, loaded.Settings.UserAgent)
		if t := robots.ProductToken(token); t != "" {
			token = t
		}
		known := map[string]*robotscache.Answer{} // by origin
		ask := func(u weburl.URL) (*robotscache.Answer, error) {
			if a := known[u.Origin()]; a != nil {
				return a, nil
			}
			f, err := crawl.NewFetcher(loaded.Settings, []datadir.Start{{URL: u}})
			if err != nil {
				return nil, usage("%w", err)
			}
			if err := crawl.LogIn(c.Context(), f, loaded.Settings); err != nil {
				return nil, &exitError{exitFailed, err}
			}
			// After an error the answer is an assumption, and holds the text of the error.
			a, _ := robotscache.Fetch(c.Context(), f, u.Origin(), token, loaded.Settings.RobotsStrict)
			known[u.Origin()] = a
			return a, nil
		}
		if *file != "" {
			body, err := os.ReadFile(*file)
			if err != nil {
				return usage("%w", err)
			}
			parsed := robots.Parse(body)
			answer := &robotscache.Answer{Rules: parsed.Agent(token), Sitemaps: parsed.Sitemaps()}
			ask = func(weburl.URL) (*robotscache.Answer, error) { return answer, nil }
		}
		for _, arg := range args {
			start, err := datadir.ParseStart(arg)
			if err != nil {
				return usage("%w", err)
			}
			a, err := ask(start.URL)
			if err != nil {
				return err
			}
			d := decide(start.URL, a)
			if c.asJSON {
				err = json.NewEncoder(c.out).Encode(d)
			} else {
				err = printDecision(c.stdio, d, token)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func decide(u weburl.URL, a *robotscache.Answer) *robotsDecision {
	d := &robotsDecision{URL: u.String(), Sitemaps: []string{}, Confidence: "high", assumption: a.Assumption()}
	match := a.Match(u)
	d.Allowed, d.Rule, d.Line = match.Allowed, match.Rule, match.Line
	d.Sitemaps = append(d.Sitemaps, a.Sitemaps...)
	if a.Unknown {
		d.Confidence, d.Error = "low", a.Why
	}
	if a.Rules != nil {
		d.Group = a.Rules.Group()
		if delay, ok := a.Rules.CrawlDelay(); ok {
			s := delay.Seconds()
			d.CrawlDelay = &s
		}
	}
	return d
}

func printDecision(io stdio, d *robotsDecision, token string) error {
	out := &strings.Builder{}
	verdict := "allowed"
	if !d.Allowed {
		verdict = "disallowed"
	}
	fmt.Fprintf(out, "%s: %s for %s\n", d.URL, verdict, token)
	switch {
	case d.assumption != "":
		fmt.Fprintf(out, "  %s\n", d.assumption)
	case d.Rule == robots.TooCostly:
		fmt.Fprintln(out, "  rule: not decided; so many rules almost match that finding the right one takes too long")
	case d.Rule != "":
		fmt.Fprintf(out, "  rule: %s (line %d)\n", d.Rule, d.Line)
	case d.Group != "":
		fmt.Fprintln(out, "  rule: none matches, which allows")
	}
	switch d.Group {
	case "":
		if d.assumption == "" {
			fmt.Fprintf(out, "  group: none for %s or *, which allows everything\n", token)
		}
	case "*":
		fmt.Fprintln(out, "  group: * (every crawler without a group of its own)")
	default:
		fmt.Fprintf(out, "  group: %s\n", d.Group)
	}
	if d.CrawlDelay != nil {
		fmt.Fprintf(out, "  crawl delay: %gs\n", *d.CrawlDelay)
	}
	for _, s := range d.Sitemaps {
		fmt.Fprintf(out, "  sitemap: %s\n", s)
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}
