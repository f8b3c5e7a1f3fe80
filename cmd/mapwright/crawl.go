package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/metrics"
	"github.com/mapwright/mapwright/state"
)

const defaultDataDir = "./data"

func addDataDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVarP(dir, "data-dir", "d", defaultDataDir, "`directory` of the crawl")
}

func newCrawl(environ []string, io stdio) *cobra.Command {
	var (
		starts  []string
		dir     string
		print   bool
		asJSON  bool
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "crawl [--start-url] URL...",
		Short: "Crawl from one or more start URLs",
		Example: `  mapwright crawl --start-url https://example.com/
  mapwright crawl --start-url example.com --profile own-site --data-dir site
  mapwright crawl --start-url urls.txt --scope host --max-urls 10000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := setting.load(environ, nil)
			if err != nil {
				return err
			}
			if print {
				return printConfig(io, loaded)
			}
			urls, err := readStarts(append(starts, args...), io.in)
			if err != nil {
				return err
			}
			if err := crawl.Dir(dir).CheckNew(); err != nil {
				return refusal(err)
			}
			return runCrawl(cmd.Context(), io, crawl.Options{Settings: loaded.Settings, Starts: urls, Dir: crawl.Dir(dir)}, loaded.Warnings, asJSON)
		},
	}
	cmd.Flags().StringArrayVarP(&starts, "start-url", "u", nil, "`URL`, domain, file with one per line, or - for standard input (repeatable)")
	addDataDir(cmd, &dir)
	cmd.Flags().BoolVar(&print, "print-config", false, "show each effective setting and where it came from, and do nothing else")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON instead of a table")
	setting = addSettings(cmd)
	return cmd
}

func newResume(environ []string, io stdio) *cobra.Command {
	var (
		dir     string
		print   bool
		asJSON  bool
		setting *settingFlags
	)
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Go on with a crawl that was interrupted, limited or killed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := crawl.Dir(dir).CheckOld(); err != nil {
				return refusal(err)
			}
			plan, err := crawl.ReadPlan(crawl.Dir(dir))
			if err != nil {
				return refusal(err)
			}
			loaded, err := setting.load(environ, plan.Settings)
			if err != nil {
				return err
			}
			if print {
				return printConfig(io, loaded)
			}
			return runCrawl(cmd.Context(), io, crawl.Options{Settings: loaded.Settings, Plan: plan, Dir: crawl.Dir(dir)}, loaded.Warnings, asJSON)
		},
	}
	addDataDir(cmd, &dir)
	cmd.Flags().BoolVar(&print, "print-config", false, "show each effective setting and where it came from, and do nothing else")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON instead of a table")
	setting = addSettings(cmd)
	return cmd
}

// refusal is the exit status of a crawl that could not begin.
func refusal(err error) error { return &exitError{exitUsage, err} }

// runCrawl runs a crawl under signals, shows it, and says how it ended.
func runCrawl(ctx context.Context, io stdio, o crawl.Options, warnings []string, asJSON bool) error {
	log, closeLog, err := newLogger(io, o.Settings)
	if err != nil {
		return refusal(err)
	}
	defer closeLog()
	o.Log, o.Version, o.Metrics = log, version, metrics.New()
	for _, w := range warnings {
		log.Warn(w)
	}
	if o.Settings.IgnoreRobots {
		log.Warn("ROBOTS.TXT IS IGNORED: only do this on sites that are yours")
	}
	if o.Settings.Profile == config.Polite && len(o.Starts) == 1 {
		log.Info("the polite profile makes about 3 pages/s of one host; if the server is yours, --profile own-site is faster")
	}
	ctx, stop, interrupted := onSignals(ctx, log)
	defer stop()
	o.Interrupted = interrupted
	show := newProgress(io, o.Settings, log)
	watch, err := newWatch(o.Settings, o.Metrics, log)
	if err != nil {
		return refusal(err)
	}
	o.Started = func(m *crawl.Monitor) {
		watch.start(m)
		show.start(m)
	}
	rep, err := crawl.Run(ctx, o)
	show.stop()
	watch.stop()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(io.err, "mapwright: left at once; outputs were not written: 'mapwright export --data-dir %s' writes them, 'mapwright resume --data-dir %s' goes on\n", o.Dir, o.Dir)
		return &exitError{exitInterrupted, nil}
	case err != nil:
		var locked *state.LockedError
		if errors.As(err, &locked) || errors.Is(err, state.ErrExists) || errors.Is(err, state.ErrNotOurs) {
			return refusal(err)
		}
		return &exitError{exitFailed, err}
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

// exitOf is the exit status of a crawl that ended.
func exitOf(rep *crawl.Report) error {
	switch rep.Status {
	case crawl.Complete:
		return nil
	case crawl.Partial:
		return &exitError{exitPartial, nil}
	case crawl.Cancelled:
		return &exitError{exitInterrupted, nil}
	}
	return &exitError{exitFailed, nil}
}

// newLogger makes the log by the settings.
func newLogger(io stdio, s *config.Settings) (*slog.Logger, func(), error) {
	out, done := io.err, func() {}
	if s.LogFile != "" {
		f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("open the log: %w", err)
		}
		out, done = f, func() { _ = f.Close() }
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return nil, nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o)), done, nil
	}
	return slog.New(slog.NewTextHandler(out, o)), done, nil
}
