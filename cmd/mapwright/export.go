package main

import (
	"cmp"
	"context"
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
	"github.com/mapwright/mapwright/state"
)

func newExport(environ []string, io stdio) *cobra.Command {
	var (
		out     string
		formats []string
		asJSON  bool
		dir     *dataDir
		several *clusterFlags
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:     "export [directory]",
		Aliases: []string{"export-sitemap"},
		Short: "Write sitemap.jsonl, XML sitemaps, CSV, the link graph, the changes or report.html of a crawl, " +
			"running or not",
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, f := range formats {
				if !slices.Contains(formatNames(), f) {
					return usage("flag --format: %q is not one of %s", f, strings.Join(formatNames(), ", "))
				}
			}
			address, err := several.given(setting, environ, args)
			if err != nil {
				return err
			}
			if address != "" && slices.Contains(formats, htmlFormat) {
				return usage("flag --format: html is made from the report.json of a data directory, and not with " +
					"--cluster")
			}
			dir, err := dir.orArgument(args, setting)
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
			res := &export.Result{Files: []string{}}
			onlyHTML := slices.Equal(formats, []string{htmlFormat}) // which needs no pages
			switch {
			case address != "":
				scratchIn := ""
				if cmd.Flags().Changed(config.DataDirName) {
					scratchIn = string(dir)
				}
				res, err = exportCluster(cmd.Context(), several, address, scratchIn, abs, formats, setting)
			default:
				if err := os.MkdirAll(out, 0o755); err != nil {
					return refusal(err)
				}
				if !onlyHTML {
					res, err = exportFrom(cmd.Context(), io, dir, abs, formats, setting)
				}
				if err == nil {
					err = exportHTML(io, dir, datadir.Dir(abs), formats, res)
				}
			}
			if err != nil {
				return err
			}
			if res.Links == 0 && slices.Contains(res.Files, "links.jsonl") {
				fmt.Fprintln(io.err, "mapwright: links.jsonl is empty: links are kept only by a crawl that runs with "+
					"--links")
			}
			if res.Indexable == 0 && (len(formats) == 0 || slices.Contains(formats, "xml")) {
				fmt.Fprintln(io.err, "mapwright: no sitemap.xml, because no page is indexable: indexable_reason in "+
					"sitemap.jsonl says why for each"+removedText(res.Removed))
			}
			if slices.Contains(formats, "changes") && !slices.Contains(res.Files, datadir.ChangesName) {
				fmt.Fprintln(io.err, "mapwright: no changes.jsonl, because there was no recrawl yet")
			}
			if asJSON {
				return json.NewEncoder(io.out).Encode(res)
			}
			written := "no file was written"
			if len(res.Files) > 0 {
				written = fileNames(res.Files, res.Sitemaps) + " in " + out
			}
			if onlyHTML {
				_, err = fmt.Fprintln(io.out, written)
				return err
			}
			_, err = fmt.Fprintf(io.out, "%s, %s indexable: %s\n", words.Count(res.Pages, "URL"),
				humanize.Comma(res.Indexable), written)
			return err
		},
	}
	dir = addDataDir(cmd, environ)
	several = addCluster(cmd)
	cmd.Flags().StringVarP(&out, "output", "o", "", "`directory` to write to (default: the data directory)")
	cmd.Flags().StringSliceVar(&formats, "format", nil,
		"what to write: jsonl, xml, csv, links, changes, html (default: what the crawl was asked for)")
	complete(cmd, "format", formatNames())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	setting = addSettings(cmd, environ, config.Output)
	return cmd
}

// within reports whether a path is a directory or below it. Both may go through links.
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

// removedText names the sitemaps of an earlier export that this one removed.
func removedText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; removed " + fileNames(names, export.Sitemaps{}) + " of an earlier export"
}

func formatNames() []string { return []string{"jsonl", "xml", "csv", "links", "changes", htmlFormat} }

// htmlFormat is report.html, which is made from report.json.
const htmlFormat = "html"

// exportHTML makes report.html again, unless other formats were asked for. It adds the file to what was written.
func exportHTML(io stdio, dir, out datadir.Dir, formats []string, res *export.Result) error {
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
		fmt.Fprintln(io.err, "mapwright: no report.html, because there is no report.json yet: a crawl writes it when "+
			"its run ends")
	}
	return nil
}

// exportFrom lets a running crawl write its own files, and opens the directory of one that does not run.
func exportFrom(ctx context.Context, io stdio, dir datadir.Dir, out string, formats []string,
	flags *settingFlags) (*export.Result, error) {
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		return nil, refusal(err)
	}
	o, types, err := exportOptions(plan, out, formats, flags)
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	a, err := monitor.Ask(ctx, dir, monitor.Request{Command: "export", Export: asked, Types: types})
	if err == nil {
		res := &export.Result{}
		return res, json.Unmarshal(a.Export, res)
	}
	if !errors.Is(err, monitor.ErrNotRunning) {
		return nil, &exitError{exitFailed, err}
	}
	s, err := openStored(io, dir, true, err)
	if err != nil {
		return nil, err
	}
	return exportStore(ctx, s, o, types, "free some space, then export again; nothing that was recorded is lost")
}

// exportStore writes the files of a store and closes it. Advice is for a disk that is full.
func exportStore(ctx context.Context, s *state.Store, o *export.Options, types []string, advice string) (*export.Result,
	error) {
	res, err := report.Export(ctx, s, types, *o)
	if err := errors.Join(err, s.Close()); err != nil {
		if diskFull(err) {
			err = fmt.Errorf("%w: %s", err, advice)
		}
		return nil, &exitError{exitFailed, err}
	}
	return res, nil
}

// exportOptions are what to write of the crawl of a plan, and the media types that belong into XML sitemaps.
func exportOptions(plan *datadir.Plan, out string, formats []string, flags *settingFlags) (*export.Options, []string,
	error) {
	starts, err := plan.URLs()
	if err != nil {
		return nil, nil, refusal(err)
	}
	loaded, err := flags.loadOver(plan.Settings)
	if err != nil {
		return nil, nil, err
	}
	o := report.ExportOptions(loaded.Settings, starts, datadir.Dir(out))
	o.Only = formats
	o.CSV = o.CSV || slices.Contains(formats, "csv")
	o.Links = o.Links || slices.Contains(formats, "links")
	return &o, loaded.Settings.XMLTypes, nil
}
