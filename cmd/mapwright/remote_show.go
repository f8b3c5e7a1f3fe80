package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
)

func (r *remote) list() *cobra.Command {
	var (
		states []string
		f      service.CrawlFilter
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List crawls, the newest first",
		Args:  noArguments,
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			for _, s := range states {
				if !slices.Contains(service.States(), service.State(s)) {
					return usage("flag --state: %q is not one of %v", s, service.States())
				}
				f.States = append(f.States, service.State(s))
			}
			list, err := c.Crawls(cmd.Context(), f)
			return r.table(list, err, "ID\tSTATE\tDONE\tPENDING\tCREATED\tNAME", func(crawl *service.Crawl) []any {
				return []any{crawl.ID, crawlState(crawl), humanize.Comma(crawl.Done), humanize.Comma(crawl.Pending),
					minute(crawl.CreatedAt), crawlName(crawl)}
			})
		}),
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only crawls in this `state` (repeatable)")
	cmd.Flags().StringVar(&f.Label, "label", "", "only crawls with this `label`")
	cmd.Flags().StringVar(&f.Name, "search", "", "only crawls whose name or a start URL contains this `text`")
	r.addPart(cmd, &f)
	return cmd
}

func (r *remote) queue() *cobra.Command {
	var f service.CrawlFilter
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List crawls that wait, in the order in which they start, and why they wait",
		Args:  noArguments,
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			list, err := c.Queue(cmd.Context(), f)
			return r.table(list, err, "PLACE\tID\tPRIORITY\tCREATED\tNAME\tWAITS", func(crawl *service.Crawl) []any {
				wait := cmp.Or(crawl.Waiting, &service.Waiting{})
				return []any{wait.Position, crawl.ID, crawl.Priority, minute(crawl.CreatedAt), crawlName(crawl),
					wait.Detail}
			})
		}),
	}
	r.addPart(cmd, &f)
	return cmd
}

// addPart gives a command the flags that say whose crawls it lists, and which part of the list.
func (r *remote) addPart(cmd *cobra.Command, f *service.CrawlFilter) {
	cmd.Flags().StringVar(&f.Account, "account", "",
		"`id` or name of another account, or * for all; needs the scope admin")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "at most this many")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "`cursor` that the last list ended with")
	r.addJSON(cmd)
}

// table prints a part of a list, one crawl in a line, unless there is an error.
func (r *remote) table(list *service.List[service.Crawl], err error, head string,
	cells func(*service.Crawl) []any) error {
	if err != nil {
		return err
	}
	if r.asJSON {
		return r.printJSON(list)
	}
	w := newTable(r.out)
	fmt.Fprintln(w, head)
	for i := range list.Items {
		row := cells(&list.Items[i])
		fmt.Fprintf(w, strings.TrimSuffix(strings.Repeat("%v\t", len(row)), "\t")+"\n", row...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if list.NextCursor != "" {
		fmt.Fprintf(r.err, "mapwright: there are more: --cursor %s shows the next\n", list.NextCursor)
	}
	return nil
}

// crawlName is how a list names a crawl.
func crawlName(crawl *service.Crawl) string {
	return cmp.Or(crawl.Name, strings.Join(crawl.StartURLs, " "))
}

func (r *remote) get() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "get ID [RESULT]",
		Short: "Show a crawl, or read one of its results: pages.jsonl, sitemap.xml, report, report.html, links, " +
			"changes, log",
		Args: crawlIDs(1, 2),
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if len(args) == 2 {
				return r.download(cmd.Context(), c, args[0], args[1], out)
			}
			return r.print(c.Crawl(cmd.Context(), args[0]))
		}),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write the result to (default: standard output)")
	r.addJSON(cmd)
	return cmd
}

// download reads a result. A file appears whole or not at all.
func (r *remote) download(ctx context.Context, c *client.Client, id, name, path string) error {
	body, err := c.Result(ctx, id, name)
	if err != nil {
		return err
	}
	defer body.Close()
	if path == "" {
		_, err = io.Copy(r.out, body)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return refusal(err)
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (r *remote) watch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Show what happens to a crawl until it ends; the exit status is that of 'mapwright crawl'",
		Args:  crawlIDs(1, 1),
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return r.follow(cmd.Context(), c, args[0])
		}),
	}
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print each event as a line of JSON")
	return cmd
}

// follow prints the events and samples of a crawl until it has ended, or a signal comes.
func (r *remote) follow(ctx context.Context, c *client.Client, id string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := c.Crawl(ctx, id); err != nil && ctx.Err() == nil {
		return err // Events would retry the stream for ever
	}
	for event, err := range c.Events(ctx, id, 0) {
		if ctx.Err() != nil {
			return &exitError{exitInterrupted,
				fmt.Errorf("the crawl is left to the server: 'mapwright remote watch %s' shows it again, 'mapwright "+
					"remote cancel %s' ends it", id, id)}
		}
		if err != nil {
			return err
		}
		if r.asJSON {
			err = r.printJSON(event)
		} else {
			_, err = fmt.Fprintln(r.out, eventText(&event))
		}
		if err != nil {
			return err
		}
		if event.Type != service.CrawlFinished && event.Type != service.CrawlDeleted && event.Type != service.Gap {
			continue
		}
		crawl, err := c.Crawl(ctx, id)
		if client.IsNotFound(err) {
			return &exitError{exitFailed, fmt.Errorf("crawl %s was deleted", id)}
		}
		if err != nil {
			return err
		}
		for _, text := range crawl.Errors {
			fmt.Fprintf(r.err, "mapwright: %s\n", text)
		}
		if event.Generation > crawl.Generation { // a cancelled recrawl: the crawl is again what it was before
			return exitOf(page.Cancelled)
		}
		if crawl.State.Ended() { // else the event is of an earlier run, or the gap did not hide the end
			return exitOf(page.Status(crawl.State))
		}
	}
	return nil
}

// eventText is an event as one line for people.
func eventText(e *service.Event) string {
	at := e.At.Local().Format("15:04:05")
	if e.Type == service.Sample {
		var live monitor.Live
		if json.Unmarshal(e.Data, &live) == nil {
			text := fmt.Sprintf("%s  %s done, %s pending, %d in flight, %.1f pages/s", at, humanize.Comma(live.Done),
				humanize.Comma(live.Pending), live.InFlight, live.PagesPerSecNow)
			if live.Waiting != "" {
				text += "; " + live.Waiting
			}
			return text
		}
	}
	text := fmt.Sprintf("%s  %s", at, e.Type)
	var data struct {
		crawl.Notice
		State   service.State   `json:"state"`
		Waiting service.Waiting `json:"waiting"`
		Detail  string          `json:"detail"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return text
	}
	if e.Type != service.CrawlFinished {
		data.State = "" // its type says it
	}
	limit := ""
	if data.Limit != "" {
		limit = fmt.Sprintf("%d %% of the limit of %s is used", data.Percent, data.Limit)
	}
	more := slices.DeleteFunc([]string{string(data.State), limit, data.Host, data.Reason, data.Waiting.Detail,
		data.Detail}, func(part string) bool { return part == "" })
	if len(more) > 0 {
		text += "  " + strings.Join(more, ": ")
	}
	return text
}

// crawlState is the state of a crawl, and why it waits.
func crawlState(crawl *service.Crawl) string {
	text := string(crawl.State)
	if w := crawl.Waiting; w != nil {
		text += " (" + string(w.Code)
		if w.Position > 0 {
			text += fmt.Sprintf(", %s", humanize.Ordinal(w.Position))
		}
		text += ")"
	}
	return text
}

// print prints a crawl, unless there is an error.
func (r *remote) print(crawl *service.Crawl, err error) error {
	if err != nil {
		return err
	}
	if r.asJSON {
		return r.printJSON(crawl)
	}
	t := newTable(r.out)
	t.row("Crawl", "%s", crawl.ID)
	t.some("Name", crawl.Name)
	t.row("State", "%s", crawlState(crawl))
	if crawl.Waiting != nil {
		t.row("Waiting", "%s", crawl.Waiting.Detail)
	}
	t.some("Reason", crawl.Reason)
	t.each("Error", crawl.Errors)
	t.each("Warning", crawl.Warnings)
	t.each("Start", crawl.StartURLs)
	t.row("Profile", "%s", crawl.Profile)
	t.figures(crawl.Found, crawl.Done, crawl.Pending)
	if len(crawl.Outcomes) > 0 {
		t.row("Outcomes", "%s", counts(crawl.Outcomes))
	}
	t.row("Received", "%s", humanize.IBytes(uint64(max(0, crawl.Bytes))))
	t.limits(crawl.Limits)
	return t.Flush()
}
