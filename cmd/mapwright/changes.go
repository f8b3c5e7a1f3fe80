package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/recrawl"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/state"
)

func newChanges(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "changes [directory]",
		Short: "List what recrawls found changed, with the values before and after",
		Args:  oneDirectory,
	})
	c.addDataDir()
	since := c.Flags().String("since", "", "list changes found at this `date or generation` and later: "+
		"2026-01-31, a time such as 2026-01-31T12:00:00Z, or a number, of which 1 is the first recrawl (default: the "+
		"last generation)")
	c.addJSON("print one JSON object per change, as in changes.jsonl")
	return c.does(func(args []string) error {
		dir, err := c.existing(args)
		if err != nil {
			return err
		}
		from, err := parseSince(*since)
		if err != nil {
			return usage("flag --since: %w", err)
		}
		if err := dir.CheckFree(); err != nil {
			return refusal(err)
		}
		s, err := c.openStored(dir, false, errors.New("no crawl runs there"))
		if err != nil {
			return err
		}
		return errors.Join(c.listChanges(dir, s, from), s.Close())
	})
}

// since is where a list of changes begins: at a generation, 0 for the last one, or at a time, in any generation.
type since struct {
	generation uint32
	at         time.Time
}

// parseSince reads a number of a generation, or a date.
func parseSince(text string) (since, error) {
	if text == "" {
		return since{}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return since{generation: max(1, uint32(n))}, nil // the first crawl, 0, has no changes
	}
	at, err := config.ParseDate(text)
	if err != nil {
		return since{}, fmt.Errorf("%w, nor the number of a generation", err)
	}
	return since{generation: 1, at: at}, nil
}

// includes reports whether a change that was found at a time is listed.
func (s since) includes(at time.Time) bool { return !at.Before(s.at) }

// listChanges writes the changes of a generation and later ones, by default those of the last.
func (c *command) listChanges(dir datadir.Dir, s *state.Store, from since) error {
	last, err := page.Generation(s.Facts())
	if err != nil {
		return err
	}
	if last == 0 {
		fmt.Fprintf(c.err, "mapwright: the crawl in %s was not repeated yet, so that there is nothing to compare: "+
			"'%s' does that\n", dir, dir.Command("recrawl"))
		return nil
	}
	from.generation = cmp.Or(from.generation, last)
	if from.generation > last {
		return usage("flag --since: %d is not a generation yet; the last one is %d", from.generation, last)
	}
	switch page.Status(s.Facts()[page.FactStatus]) {
	case page.Complete, page.Failed:
	case page.Partial:
		fmt.Fprintf(c.err, "mapwright: a limit ended generation %d, so that not all pages were checked\n", last)
	default:
		fmt.Fprintf(c.err, "mapwright: generation %d is not finished, so that not all pages were checked: '%s' goes "+
			"on with it\n", last, dir.Command("resume"))
	}
	if !c.asJSON {
		return c.listText(s, from, last)
	}
	enc := json.NewEncoder(c.out) // the lines of changes.jsonl
	enc.SetEscapeHTML(false)
	return eachChange(c.Context(), s, from, page.NoChange, func(l *recrawl.Line) error { return enc.Encode(l) })
}

// eachChange calls do with the changes of one kind, or of all kinds if kind is NoChange.
func eachChange(ctx context.Context, s *state.Store, from since, kind page.Change,
	do func(*recrawl.Line) error) error {
	for l, err := range report.Changes(ctx, s, nil, from.generation, kind) {
		if err == nil && from.includes(l.CheckedAt.Time) {
			err = do(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listText writes the changes for people, one kind after the other.
func (c *command) listText(s *state.Store, from since, last uint32) error {
	counts := map[page.Change]int64{}
	for change, err := range s.Changes(c.Context(), from.generation) {
		if err != nil {
			return err
		}
		at, _, err := recrawl.DecodeDifferences(change.Differences)
		if err != nil {
			return err
		}
		if from.includes(at) {
			counts[page.Change(change.Change)]++
		}
	}
	title := fmt.Sprintf("Generation %d", last)
	switch {
	case !from.at.IsZero():
		title = "Since " + from.at.Format(time.RFC3339)
	case from.generation < last:
		title = fmt.Sprintf("Generations %d to %d", from.generation, last)
	}
	kinds := slices.Sorted(maps.Keys(counts))
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, humanize.Comma(counts[kind])+" "+kind.String())
	}
	if len(parts) == 0 {
		parts = []string{"nothing changed"}
	}
	if _, err := fmt.Fprintf(c.out, "%s: %s\n", title, strings.Join(parts, ", ")); err != nil {
		return err
	}
	for _, kind := range kinds {
		name := kind.String()
		if _, err := fmt.Fprintf(c.out, "\n%s (%s)\n", strings.ToUpper(name[:1])+name[1:],
			humanize.Comma(counts[kind])); err != nil {
			return err
		}
		err := eachChange(c.Context(), s, from, kind, func(l *recrawl.Line) error {
			_, err := fmt.Fprint(c.out, changeText(l, from.generation < last))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changeText is one change for people: the URL, and below it what differs.
func changeText(l *recrawl.Line, showGeneration bool) string {
	text := &strings.Builder{}
	text.WriteString("  " + l.URL)
	if showGeneration {
		fmt.Fprintf(text, " (generation %d)", l.Generation)
	}
	text.WriteByte('\n')
	for _, field := range recrawl.Fields() {
		v, differs := l.Fields[field.String()]
		if !differs {
			continue
		}
		if l.Change == page.New.String() {
			fmt.Fprintf(text, "    %s: %s\n", field, valueText(v.After))
			continue
		}
		if field == recrawl.TextHash {
			text.WriteString("    the text changed\n") // the two hashes would say no more
			continue
		}
		fmt.Fprintf(text, "    %s: %s -> %s\n", field, valueText(v.Before), valueText(v.After))
	}
	return text.String()
}

// valueText is a value for people.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return v
	}
	return fmt.Sprint(v)
}
