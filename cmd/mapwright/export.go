package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/results/ui"
	"github.com/mapwright/mapwright/internal/words"
)

func newExport(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:     "export [directory]",
		Aliases: []string{"export-sitemap"},
		Short: "Write sitemap.jsonl, XML sitemaps, CSV, Parquet, the link graph, the changes or report.html of a " +
			"crawl, " +
			"running or not",
		Args: oneDirectory,
	})
	c.addDataDir()
	c.addCluster()
	output := c.Flags().StringP("output", "o", "", "`directory` to write to (default: the data directory)")
	formats := c.Flags().StringSlice("format", nil,
		"what to write: jsonl, xml, csv, parquet, links, changes, html (default: what the crawl was asked for)")
	complete(c.Command, "format", formatNames())
	c.addJSON("print one JSON object")
	c.addSettings(config.Output)
	return c.does(func(args []string) error { return c.export(args, *output, *formats) })
}

func (c *command) export(args []string, out string, formats []string) error {
	for _, f := range formats {
		if !slices.Contains(formatNames(), f) {
			return usage("flag --format: %q is not one of %s", f, strings.Join(formatNames(), ", "))
		}
	}
	address, err := c.cluster(args)
	if err != nil {
		return err
	}
	if address != "" && slices.Contains(formats, htmlFormat) {
		return usage("flag --format: html is made from the report.json of a data directory, and not with --cluster")
	}
	dir, err := c.existing(args)
	if err != nil {
		return err
	}
	if err := dir.CheckOld(); err != nil && address == "" {
		return refusal(err)
	}
	out = cmp.Or(out, string(dir))
	abs, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if within(abs, dir.State()) {
		return usage("flag --output: %s is where the crawl keeps its state: choose another directory", out)
	}
	if address == "" && datadir.HasRecord(abs) && !within(abs, string(dir)) {
		return usage("flag --output: %s has the files of another crawl: choose another directory", out)
	}
	res := &export.Result{Files: []string{}}
	onlyHTML := slices.Equal(formats, []string{htmlFormat}) // which needs no pages
	if address != "" {
		scratchIn := ""
		if c.Flags().Changed(config.DataDirName) {
			scratchIn = string(dir)
		}
		res, err = c.exportCluster(address, scratchIn, abs, formats)
	} else {
		if err := os.MkdirAll(out, 0o755); err != nil {
			return refusal(err)
		}
		if !onlyHTML {
			res, err = c.exportFrom(dir, abs, formats)
		}
		if err == nil {
			err = c.exportHTML(dir, datadir.Dir(abs), formats, res)
		}
	}
	if err != nil {
		return err
	}
	if res.Links == 0 && slices.Contains(res.Files, "links.jsonl") {
		fmt.Fprintln(c.err, "mapwright: links.jsonl is empty: links are kept only by a crawl that runs with --links")
	}
	if res.Indexable == 0 && (len(formats) == 0 || slices.Contains(formats, "xml")) {
		removed := ""
		if len(res.Removed) > 0 {
			removed = "; removed " + fileNames(res.Removed, export.Sitemaps{}) + " of an earlier export"
		}
		fmt.Fprintln(c.err, "mapwright: no XML sitemap, because no page is indexable: indexable_reason in "+
			"sitemap.jsonl says why for each"+removed)
	}
	if res.Excluded > 0 && res.Excluded == res.Indexable && (len(formats) == 0 || slices.Contains(formats, "xml")) {
		fmt.Fprintln(c.err, "mapwright: no XML sitemap, because --exclude-from-sitemap leaves out all indexable pages")
	}
	if slices.Contains(formats, "changes") && !slices.Contains(res.Files, datadir.ChangesName) {
		fmt.Fprintln(c.err, "mapwright: no changes.jsonl, because there was no recrawl yet")
	}
	if c.asJSON {
		return json.NewEncoder(c.out).Encode(res)
	}
	written := "no file was written"
	if len(res.Files) > 0 {
		written = fileNames(res.Files, res.Sitemaps) + " in " + out
	}
	if !onlyHTML {
		written = fmt.Sprintf("%s, %s indexable: %s", words.Count(res.Pages, "URL"), humanize.Comma(res.Indexable),
			written)
	}
	_, err = fmt.Fprintln(c.out, written)
	return err
}

// within reports whether a path is a directory or below it. Both may contain symbolic links.
func within(path, dir string) bool {
	real := func(name string) string {
		name, _ = filepath.Abs(name)
		rest := ""
		for at := name; ; at = filepath.Dir(at) { // the last names may not exist yet
			if to, err := filepath.EvalSymlinks(at); err == nil {
				return filepath.Join(to, rest)
			}
			if at == filepath.Dir(at) {
				return name
			}
			rest = filepath.Join(filepath.Base(at), rest)
		}
	}
	rel, err := filepath.Rel(real(dir), real(path))
	return err == nil && filepath.IsLocal(rel)
}

func formatNames() []string {
	return []string{"jsonl", "xml", "csv", "parquet", "links", "changes", htmlFormat}
}

// htmlFormat is report.html, which is made from report.json.
const htmlFormat = "html"

// exportHTML makes report.html again, unless other formats were asked for. It adds the file to what was written.
func (c *command) exportHTML(dir, out datadir.Dir, formats []string, res *export.Result) error {
	if len(formats) > 0 && !slices.Contains(formats, htmlFormat) {
		return nil
	}
	made, err := ui.Rewrite(dir, out)
	switch {
	case err != nil:
		return &exitError{exitFailed, err}
	case made:
		res.Files = append(res.Files, datadir.ReportHTMLName)
	case len(formats) > 0:
		fmt.Fprintln(c.err, "mapwright: no report.html, because there is no report.json yet: a crawl writes it when "+
			"its run ends")
	}
	return nil
}

// exportFrom lets a running crawl write its own files, and opens the directory of one that does not run.
func (c *command) exportFrom(dir datadir.Dir, out string, formats []string) (*export.Result, error) {
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		return nil, refusal(err)
	}
	o, types, err := c.exportOptions(plan, out, formats)
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	a, err := monitor.Ask(c.Context(), dir, monitor.Request{Command: "export", Export: asked, Types: types})
	if err == nil {
		res := &export.Result{}
		return res, json.Unmarshal(a.Export, res)
	}
	if !errors.Is(err, monitor.ErrNotRunning) {
		return nil, &exitError{exitFailed, err}
	}
	s, err := c.openStored(dir, true, err)
	if err != nil {
		return nil, err
	}
	res, err := report.Export(c.Context(), s, types, *o)
	return res, exportFailed(errors.Join(err, s.Close()),
		"free some space, then export again; nothing that was recorded is lost")
}

// exportFailed gives the error of an export, if there is one, its exit status. It adds the advice if the disk is full.
func exportFailed(err error, advice string) error {
	if diskFull(err) {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

// exportOptions returns what to write for the crawl of a plan, and the media types that XML sitemaps include.
func (c *command) exportOptions(plan *datadir.Plan, out string, formats []string) (*export.Options, []string, error) {
	starts, err := plan.URLs()
	if err != nil {
		return nil, nil, refusal(err)
	}
	loaded, err := c.loadOver(plan.Settings, false)
	if err != nil {
		return nil, nil, err
	}
	o := report.ExportOptions(loaded.Settings, starts, datadir.Dir(out))
	o.Only = formats
	o.CSV = o.CSV || slices.Contains(formats, "csv")
	o.Parquet = o.Parquet || slices.Contains(formats, "parquet")
	o.Links = o.Links || slices.Contains(formats, "links")
	return &o, loaded.Settings.XMLTypes, nil
}
