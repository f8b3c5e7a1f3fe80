package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

func newInspect(environ []string, io stdio) *cobra.Command {
	var (
		base    string
		asJSON  bool
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "inspect [--base URL] FILE|URL",
		Short: "Print all that would be recorded of one page",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("inspect takes one page: a FILE, a URL, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := setting.load()
			if err != nil {
				return err
			}
			in, err := inspected(cmd.Context(), loaded.Settings, args[0], base, io)
			if err != nil {
				return err
			}
			ins, err := crawl.Inspect(loaded.Settings, in)
			if err != nil {
				return usage("%w", err)
			}
			if asJSON {
				enc := json.NewEncoder(io.out)
				enc.SetEscapeHTML(false)
				return enc.Encode(ins)
			}
			return printInspection(io, ins)
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "`URL` of a page that is read from a file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	setting = addSettings(cmd, environ, config.Fetching, config.Scope, config.Robots)
	return cmd
}

// inspected reads a page from a file or standard input, or fetches it.
func inspected(ctx context.Context, s *config.Settings, arg, base string, std stdio) (*crawl.Inspected, error) {
	if arg == "-" || isFile(arg) || meansFile(arg) {
		in := &crawl.Inspected{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}}}
		if base == "" {
			base = "http://localhost/"
		}
		u, err := urlnorm.Parse(base)
		if err != nil {
			return nil, usage("--base %q: %w", base, err)
		}
		in.URL = u
		page := std.in
		if arg != "-" {
			file, err := os.Open(arg)
			if err != nil {
				return nil, usage("%w", err)
			}
			defer file.Close()
			page = file
		}
		in.Body, err = crawl.ReadPage(page, s.MaxBodySize)
		if err != nil {
			return nil, &exitError{exitFailed, err}
		}
		return in, nil
	}
	start, err := parseStart(arg)
	if err != nil {
		return nil, usage("%w", err)
	}
	f, err := crawl.NewFetcher(s, []crawl.Start{start})
	if err != nil {
		return nil, usage("%w", err)
	}
	in, err := crawl.FetchPage(ctx, f, start.URL)
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return in, nil
}

func printInspection(io stdio, ins *crawl.Inspection) error {
	out := &strings.Builder{}
	row := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" {
			fmt.Fprintf(out, "%-15s %s\n", name, text)
		}
	}
	l := &ins.Line
	row("URL", l.URL)
	row("Status", l.StatusCode)
	row("Outcome", l.Outcome)
	row("Redirects to", l.RedirectTo)
	row("Content type", l.ContentType)
	row("Base", ins.Base)
	row("Title", l.Title)
	row("Description", l.Description)
	row("H1", l.H1)
	row("Canonical", l.CanonicalURL)
	row("Language", l.Language)
	row("Robots", l.RobotsMeta)
	row("JSON-LD", strings.Join(l.JSONLDTypes, ", "))
	row("Content hash", l.ContentHash)
	if l.WordCount != nil {
		row("Words", *l.WordCount)
	}
	if !l.LastModified.IsZero() {
		row("Last modified", l.LastModified.Format(time.RFC3339))
	}
	indexable := "yes"
	if !l.Indexable {
		indexable = "no: " + l.IndexableReason
	}
	row("Indexable", indexable)
	for name, value := range l.Extracted {
		row(name, value)
	}
	fmt.Fprintf(out, "%-15s %d\n", "Links", len(ins.Links))
	for _, link := range ins.Links {
		target, mark := link.Href, "  "
		if link.URL != nil {
			target = *link.URL
		}
		why := ""
		if !link.Follow {
			mark, why = "x ", "  ("+link.Reason+")"
		}
		fmt.Fprintf(out, "  %s%-7s %s%s\n", mark, link.Kind, target, why)
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}
