package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results"
)

func newCrawl(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "crawl [--start-url] URL...",
		Short: "Crawl from one or more start URLs",
		Example: `  mapwright crawl --start-url https://example.com/
  mapwright crawl --start-url example.com --profile own-site --data-dir site
  mapwright crawl --start-url urls.txt --scope host --max-urls 10000`,
	})
	starts := c.Flags().StringArrayP(config.StartURLName, "u", nil,
		"`URL`, domain, file with one per line, or - for standard input (repeatable)")
	c.addRun()
	dry := c.Flags().Bool("dry-run", false, "request robots.txt and sitemaps, say which pages would be fetched, and "+
		"write nothing")
	return c.does(func(args []string) error {
		loaded, err := c.load()
		if c.printsConfig {
			if err != nil {
				return err
			}
			return c.printConfig(loaded)
		}
		given := append(*starts, args...)
		if len(given) == 0 {
			given = c.outside(config.StartURLName)
		}
		// All faults are named at once: those of the settings, of the start URLs and of the directory's name.
		urls, startsErr := readStarts(given, c.in)
		dir, dirErr := c.directory()
		address, clusterErr := c.toJoin()
		if err == nil {
			err = checkAccess(loaded.Settings) // before a crawl of several machines is made
		}
		if err := errors.Join(err, startsErr, dirErr, clusterErr); err != nil {
			return err
		}
		if *dry && address != "" {
			return usage("--dry-run works on one machine: leave --cluster out")
		}
		if *dry {
			return c.dryCrawl(loaded, urls)
		}
		if address != "" {
			return (&machine{command: c, dir: dir, address: address}).crawl(loaded.Settings, urls)
		}
		if err := dir.CheckNew(); err != nil {
			return refusal(err)
		}
		return c.runCrawl(crawl.Options{Settings: loaded.Settings, Starts: urls, Dir: dir}, loaded.Warnings, nil)
	})
}

func newResume(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "resume [directory]",
		Short: "Go on with a crawl or a recrawl that was interrupted, limited or killed",
		Long: "Go on with a crawl or a recrawl that was interrupted, limited or killed. It keeps its settings; flags " +
			"and a --config file that are given here replace them, and are remembered. " +
			"Environment variables change only what is about this process, such as the log; others are ignored with " +
			"a warning.",
		Example: `  mapwright resume
  mapwright resume --data-dir site --max-urls 20000`,
		Args: oneDirectory,
	})
	c.addRun()
	return c.does(func(args []string) error {
		address, err := c.cluster(args)
		if err != nil {
			return err
		}
		dir, err := c.existing(args)
		switch {
		case err != nil:
			return err
		case address == "":
			return c.continueCrawl(dir, nil)
		case c.printsConfig:
			return usage("--print-config shows the settings of a crawl of this machine alone")
		}
		if err := checkMachineDir(dir); err != nil {
			return refusal(err)
		}
		if given, err := c.load(); err == nil && given.Settings.Profile == config.Safe {
			return errSafe
		}
		return (&machine{command: c, dir: dir, address: address, resume: true}).join()
	})
}

// continueCrawl resumes the crawl of a directory, or begins a recrawl of it if again is not nil. With --print-config it
// only prints the settings.
func (c *command) continueCrawl(dir datadir.Dir, again *crawl.Recrawl) error {
	if err := dir.CheckFree(); err != nil {
		return refusal(err)
	}
	plan, err := datadir.ReadPlan(dir)
	if err != nil {
		return refusal(err)
	}
	loaded, err := c.loadRun(plan.Settings, false)
	if err != nil {
		return err
	}
	if c.printsConfig {
		return c.printConfig(loaded)
	}
	return c.runCrawl(crawl.Options{Settings: loaded.Settings, Plan: plan, Recrawl: again, Dir: dir}, loaded.Warnings,
		nil)
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
		return usage("%s takes one directory: %q is another ('%s --help' lists the flags)", cmd.Name(), args[1],
			cmd.CommandPath())
	}
	return nil
}

// runCrawl runs a crawl under signals, shows it, and says how it ended. If join is not nil, it begins a session in a
// crawl of several machines, and the error is errAgain if the machine should join again.
func (c *command) runCrawl(o crawl.Options, warnings []string,
	join func(context.Context, *slog.Logger) (*session.Session, error)) error {
	if err := checkAccess(o.Settings); err != nil {
		return err
	}
	show := newProgress(c.environ, c.stdio, c.quiet || c.dry != nil || o.Settings.NoProgress)
	console := everyLine
	switch {
	case c.dry != nil && o.Settings.LogLevel != "debug", show.terminal != nil: // its warnings are printed at the end
		console = noLine
	case c.quiet:
		console = warningsOnly
	}
	log, err := newLogger(c.stdio, o.Settings, console)
	if err != nil {
		return refusal(err)
	}
	defer log.close()
	show.log = log
	outputs := &results.Outputs{}
	o.Outputs, o.Log, o.Version, o.Metrics = outputs, log.Logger, version, crawl.NewMetrics()
	var begun atomic.Pointer[monitor.Monitor]
	endMetrics, err := serveMetrics(o.Settings, o.Metrics, log.Logger, &begun)
	if err != nil {
		return refusal(err)
	}
	o.Started = func(m *monitor.Monitor) {
		advise(log.Logger, &o, warnings)
		begun.Store(m)
		show.start(m, o.Dir, hintOf(&o))
	}
	shared, err := crawl.NewShared(crawl.ForOneCrawl(o.Settings))
	if err != nil {
		return unusable(o.Dir, err)
	}
	defer shared.Close()
	if join != nil {
		if o.Cluster, err = join(c.Context(), log.Logger); err != nil {
			return joinError(err)
		}
		defer o.Cluster.Close()
	}
	running, err := crawl.New(shared, o)
	if err != nil {
		return unusable(o.Dir, err)
	}
	var stopped atomic.Bool
	ctx, stop := onSignals(c.Context(), log.Logger, func() { stopped.Store(true); running.Stop(crawl.Gracefully) },
		func() { exitNow(c.err, o.Dir, show.release) })
	defer stop()
	err = running.Run(ctx)
	show.stop()
	endMetrics()
	switch {
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New(leftAtOnce(o.Dir))}
	case o.Cluster != nil && err != nil:
		return sessionEnded(c.stdio, log.Logger, o.Dir, err, stopped.Load())
	case err != nil:
		return unusable(o.Dir, err)
	}
	rep := outputs.Report
	if c.dry != nil {
		err = c.dry.print(c, o.Settings, rep)
	} else if c.asJSON {
		err = json.NewEncoder(c.out).Encode(rep)
	} else if !c.quiet {
		err = printReport(c.stdio, o.Dir, resumeOf(&o), rep)
	}
	if err != nil {
		return err
	}
	return exitOf(rep.Status)
}

// resumeOf is the command that goes on with a crawl.
func resumeOf(o *crawl.Options) string {
	command := o.Dir.Command("resume")
	if o.Cluster != nil {
		command += " --cluster ADDRESS --name " + o.Cluster.Crawl().Name
	}
	return command
}

// joinError gives the error of a failed join its exit status, or returns errAgain if another attempt may succeed.
func joinError(err error) error {
	if errors.Is(err, session.ErrNotRunning) || errors.Is(err, cluster.ErrAway) {
		return fmt.Errorf("%w: %w", errAgain, err) // the crawl has just ended, or the engine cannot be reached
	}
	if other, ok := errors.AsType[*cluster.IdentityError](err); ok {
		return refusal(other)
	}
	return &exitError{exitFailed, err}
}

// sessionEnded gives the error that ended a machine's session its exit status, or returns errAgain if the machine
// should join again.
func sessionEnded(io stdio, log *slog.Logger, dir datadir.Dir, err error, stopped bool) error {
	if left, ok := errors.AsType[*crawl.LeftError](err); ok {
		if left.Changed && !stopped {
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		fmt.Fprintf(io.out, "Done: %v.\n", left)
		switch {
		case !left.Finished:
			return &exitError{exitInterrupted, nil}
		case left.Reason == session.ReasonLimit, left.Reason == session.ReasonDuration:
			return &exitError{exitPartial, nil} // as on the machine that writes the report
		}
		return nil
	}
	lost := errors.Is(err, cluster.ErrRolledBack)
	switch {
	case errors.Is(err, cluster.ErrNoCrawl):
		return &exitError{exitFailed,
			errors.New("the crawl was deleted from the cluster while this machine worked on it")}
	case stopped:
		return &exitError{exitInterrupted, err}
	case lost:
		log.Warn(lostText, "error", err)
	case errors.Is(err, cluster.ErrFenced):
		log.Warn("the session is over, since others may have taken its partitions: joining again", "error", err)
	default:
		return unusable(dir, err)
	}
	return fmt.Errorf("%w: %w", errAgain, err)
}

// advise logs the warnings and hints about the settings of a crawl that has begun.
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

// checkAccess refuses settings that name a file which cannot be used.
func checkAccess(s *config.Settings) error {
	if err := crawl.CheckAccess(s); err != nil {
		return usage("%w", err)
	}
	return nil
}

// hintOf recommends a faster profile for a new crawl of one host at the usual pace. It is "" for other crawls.
func hintOf(o *crawl.Options) string {
	if o.Settings.Profile != config.Polite || len(o.Starts) == 0 || o.WouldFetch != nil ||
		o.Settings.MaxDelayMS != config.Defaults(config.Polite).MaxDelayMS {
		return ""
	}
	for _, s := range o.Starts {
		if s.URL.Host() != o.Starts[0].URL.Host() {
			return ""
		}
	}
	return "The polite profile fetches about 3 pages/s from one host. If the server is yours, --profile own-site is " +
		"faster."
}

// exitOf is the exit status of a crawl that ended, here or on a server.
func exitOf(status page.Status) error {
	switch status {
	case page.Complete:
		return nil
	case page.Partial:
		return &exitError{exitPartial, nil}
	case page.Cancelled:
		return &exitError{exitInterrupted, nil}
	}
	return &exitError{exitFailed, nil}
}
