package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
)

func newInspect(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "inspect [--base URL] FILE|URL",
		Short: "Print all that would be recorded of one page",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("inspect takes one page: a FILE, a URL, or - for standard input")
			}
			return nil
		},
	})
	base := c.Flags().String("base", "", "`URL` of a page that is read from a file")
	c.addJSON("print one JSON object")
	c.addSettings(config.Fetching, config.Access, config.Scope, config.Robots)
	return c.does(func(args []string) error {
		loaded, err := c.load()
		if err != nil {
			return err
		}
		in, err := c.inspected(loaded.Settings, args[0], cmp.Or(*base, "http://localhost/"))
		if err != nil {
			return err
		}
		ins, err := crawl.Inspect(loaded.Settings, in)
		if err != nil {
			return usage("%w", err)
		}
		if c.asJSON {
			enc := json.NewEncoder(c.out)
			enc.SetEscapeHTML(false)
			err = enc.Encode(ins)
		} else {
			err = printInspection(c.stdio, ins)
		}
		if err == nil && in.Err != nil {
			err = &exitError{exitFailed, fmt.Errorf("%s was not fetched: %s (%s)", in.URL, ins.Outcome, ins.Error)}
		}
		return err
	})
}

// inspected reads a page from a file or standard input, or fetches it.
func (c *command) inspected(s *config.Settings, arg, base string) (*crawl.Inspected, error) {
	if arg == "-" || isFile(arg) || meansFile(arg) {
		in := &crawl.Inspected{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}}}
		u, err := weburl.Parse(base)
		if err != nil {
			return nil, usage("--base %q: %w", weburl.HideUserinfo(base), err)
		}
		in.URL = u
		body := c.in
		if arg != "-" {
			file, err := os.Open(arg)
			if err != nil {
				return nil, usage("%w", err)
			}
			defer file.Close()
			body = file
		}
		in.Body, in.Charset, err = crawl.ReadPage(body, s.MaxBodySize)
		if err != nil {
			return nil, &exitError{exitFailed, err}
		}
		return in, nil
	}
	start, err := datadir.ParseStart(arg)
	if err != nil {
		return nil, usage("%w", err)
	}
	f, err := crawl.NewFetcher(s, []datadir.Start{start})
	if err != nil {
		return nil, usage("%w", err)
	}
	if err := crawl.LogIn(c.Context(), f, s); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	in, err := crawl.FetchPage(c.Context(), s, f, start.URL)
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return in, nil
}

func printInspection(io stdio, ins *crawl.Inspection) error {
	out := &strings.Builder{}
	row := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" {
			fmt.Fprintf(out, "%-15s %s\n", name, strings.ReplaceAll(text, "\n", `\n`))
		}
	}
	l := &ins.Line
	row("URL", l.URL)
	row("Status", l.StatusCode)
	row("Outcome", l.Outcome)
	row("Error", l.Error)
	row("robots.txt", robotsText(l.Robots, ins.Assumption))
	row("Redirects to", l.RedirectTo)
	row("Content type", l.ContentType)
	if l.ContentLength != nil {
		row("Content length", fmt.Sprint(*l.ContentLength, " bytes"))
	}
	if l.ContentHash != nil {
		row("Content hash", l.ContentHash)
	}
	if l.ResponseTime != nil {
		row("Response time", fmt.Sprint(time.Duration(*l.ResponseTime).Milliseconds(), " ms"))
	}
	row("ETag", l.ETag)
	if !l.LastModified.IsZero() {
		row("Last modified", l.LastModified.Format(time.RFC3339))
	}
	row("Base", ins.Base)
	row("Title", l.Title)
	row("Description", l.Description)
	row("H1", l.H1)
	row("Canonical", l.Canonical)
	row("Language", l.Language)
	for _, h := range l.Hreflang {
		row("Hreflang", h.Lang+" "+h.URL)
	}
	row("Robots meta", l.RobotsMeta)
	row("JSON-LD", strings.Join(l.JSONLDTypes, ", "))
	for _, name := range slices.Sorted(maps.Keys(l.OpenGraph)) {
		row("Open Graph", name+" "+l.OpenGraph[name])
	}
	if l.WordCount != nil {
		row("Words", *l.WordCount)
	}
	indexable := "yes"
	if !l.Indexable {
		indexable = "no: " + l.IndexableReason
	}
	row("Indexable", indexable)
	for _, name := range slices.Sorted(maps.Keys(l.Extracted)) {
		row("Extracted", fmt.Sprint(name, " ", l.Extracted[name]))
	}
	for _, u := range l.Images {
		row("Image", u)
	}
	if l.LinkCount == nil {
		_, err := fmt.Fprint(io.out, out)
		return err
	}
	fmt.Fprintf(out, "%-15s %d (x: not followed, and why)\n", "Links", len(ins.Links))
	for _, link := range ins.Links {
		target, mark := link.Href, "  "
		if link.URL != nil {
			target = *link.URL
		}
		why := ""
		if !link.Follow {
			mark, why = "x ", "  ("+link.Reason+")"
		}
		fmt.Fprintf(out, "  %s%-7s %s%s\n", mark, link.Kind, strings.ReplaceAll(target, "\n", `\n`), why)
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}

// robotsText says what robots.txt says of a page, and what to do if it forbids it.
func robotsText(r *page.LineRobots, assumption string) string {
	if r == nil {
		return ""
	}
	var text string
	switch blocked := r.Evidence != "robots_allowed"; {
	case assumption != "":
		text = assumption
	case blocked:
		text = "disallowed by the line " + strconv.Quote(r.Rule) +
			"; not fetched (--ignore-robots fetches it all the same)"
	case r.Rule != "":
		text = "allowed by the line " + strconv.Quote(r.Rule)
	default:
		text = "allowed, no line forbids it"
	}
	if r.CrawlDelay > 0 {
		text += fmt.Sprintf("; crawl delay %gs", r.CrawlDelay)
	}
	return text
}
