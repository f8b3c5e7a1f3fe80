package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/datadir"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/crawl/report"
)

func newCrawl(environ []string, io stdio) *cobra.Command {
	var (
		starts  []string
		print   bool
		asJSON  bool
		dir     *dataDir
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "crawl [--start-url] URL...",
		Short: "Crawl from one or more start URLs",
		Example: `  mapwright crawl --start-url https://example.com/
  mapwright crawl --start-url example.com --profile own-site --data-dir site
  mapwright crawl --start-url urls.txt --scope host --max-urls 10000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := setting.load()
			if print {
				if err != nil {
					return err
				}
				return printConfig(io, loaded, asJSON)
			}
			given := append(starts, args...)
			if len(given) == 0 {
				given = setting.outside(config.StartURLName)
			}
			// All faults are named at once: those of the settings, of the start URLs and of the directory's name.
			urls, startsErr := readStarts(given, io.in)
			dir, dirErr := dir.dir(setting)
			if err := errors.Join(err, startsErr, dirErr); err != nil {
				return err
			}
			if err := dir.CheckNew(); err != nil {
				return refusal(err)
			}
			return runCrawl(cmd.Context(), environ, io, crawl.Options{Settings: loaded.Settings, Starts: urls, Dir: dir}, loaded.Warnings, asJSON)
		},
	}
	cmd.Flags().StringArrayVarP(&starts, config.StartURLName, "u", nil, "`URL`, domain, file with one per line, or - for standard input (repeatable)")
	dir = addDataDir(cmd, environ)
	setting = addSettings(cmd, environ)
	addRunFlags(cmd, &print, &asJSON)
	return cmd
}

func newResume(environ []string, io stdio) *cobra.Command {
	var (
		print   bool
		asJSON  bool
		dir     *dataDir
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "resume [directory]",
		Short: "Go on with a crawl or a recrawl that was interrupted, limited or killed",
		Long: "Go on with a crawl or a recrawl that was interrupted, limited or killed. It keeps its settings; flags and a --config file that are given here replace them, and are remembered. " +
			"Environment variables change only what is about this process, such as the log; others are ignored with a warning.",
		Example: `  mapwright resume
  mapwright resume --data-dir site --max-urls 20000`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dir.orArgument(args, setting)
			if err != nil {
				return err
			}
			if err := dir.CheckFree(); err != nil {
				return refusal(err)
			}
			plan, err := datadir.ReadPlan(dir)
			if err != nil {
				return refusal(err)
			}
			loaded, err := setting.loadOver(plan.Settings)
			if err != nil {
				return err
			}
			if print {
				return printConfig(io, loaded, asJSON)
			}
			return runCrawl(cmd.Context(), environ, io, crawl.Options{Settings: loaded.Settings, Plan: plan, Dir: dir}, loaded.Warnings, asJSON)
		},
	}
	dir = addDataDir(cmd, environ)
	setting = addSettings(cmd, environ)
	addRunFlags(cmd, &print, &asJSON)
	return cmd
}

// addRunFlags gives a command that crawls the flags that are about its own output.
func addRunFlags(cmd *cobra.Command, print, asJSON *bool) {
	cmd.Flags().BoolVar(print, "print-config", false, "show each effective setting and where it came from, and do nothing else")
	cmd.Flags().BoolVar(asJSON, "json", false, "print the report, or with --print-config the settings, as JSON instead of a table")
}

// noArguments is for commands that take flags alone.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument: %q ('%s --help' lists the flags)", cmd.Name(), args[0], cmd.CommandPath())
	}
	return nil
}

// oneDirectory is for commands that take the data directory as an argument too.
func oneDirectory(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("%s takes one directory: %q is another ('%s --help' lists the flags)", cmd.Name(), args[1], cmd.CommandPath())
	}
	return nil
}

// runCrawl runs a crawl under signals, shows it, and says how it ended.
func runCrawl(ctx context.Context, environ []string, io stdio, o crawl.Options, warnings []string, asJSON bool) error {
	show := newProgress(environ, io, o.Settings)
	log, err := newLogger(io, o.Settings, show.terminal != nil)
	if err != nil {
		return refusal(err)
	}
	defer log.close()
	show.log = log
	o.Log, o.Version, o.Metrics = log.Logger, version, crawl.NewMetrics()
	watch, err := newWatch(o.Settings, o.Metrics, log.Logger)
	if err != nil {
		return refusal(err)
	}
	o.Started = func(m *monitor.Monitor) {
		advise(log.Logger, &o, warnings)
		watch.start(m)
		show.start(m, o.Dir, hintOf(&o))
	}
	shared, err := crawl.NewShared(crawl.ForOneCrawl(o.Settings))
	if err != nil {
		return unusable(o.Dir, err)
	}
	defer shared.Close()
	c, err := crawl.New(shared, o)
	if err != nil {
		return unusable(o.Dir, err)
	}
	ctx, stop := onSignals(ctx, log.Logger, func() { c.Stop(crawl.Gracefully) }, func() { exitNow(io.err, o.Dir, show.release) })
	defer stop()
	rep, err := c.Run(ctx)
	show.stop()
	watch.stop()
	switch {
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New(leftAtOnce(o.Dir))}
	case err != nil:
		return unusable(o.Dir, err)
	}
	if asJSON {
		if err := json.NewEncoder(io.out).Encode(rep); err != nil {
			return err
		}
	} else if err := printReport(io, o.Dir, rep); err != nil {
		return err
	}
	return exitOf(rep)
}

// advise logs, once a crawl has begun, what its settings mean that the user may not expect.
func advise(log *slog.Logger, o *crawl.Options, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
	if o.Settings.IgnoreRobots {
		log.Warn("ROBOTS.TXT IS IGNORED: only do this on sites that are yours")
	}
	if hint := hintOf(o); hint != "" {
		log.Info(hint)
	}
}

// hintOf is the hint to a faster profile for a new crawl of one site, or "".
func hintOf(o *crawl.Options) string {
	if o.Settings.Profile != config.Polite || len(o.Starts) == 0 {
		return ""
	}
	for _, s := range o.Starts {
		if s.URL.Host() != o.Starts[0].URL.Host() {
			return ""
		}
	}
	return "The polite profile fetches about 3 pages/s from one host. If the server is yours, --profile own-site is faster."
}

// exitOf is the exit status of a crawl that ended.
func exitOf(rep *report.Report) error {
	switch rep.Status {
	case report.Complete:
		return nil
	case report.Partial:
		return &exitError{exitPartial, nil}
	case report.Cancelled:
		return &exitError{exitInterrupted, nil}
	}
	return &exitError{exitFailed, nil}
}
