package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/crawl/monitor"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

func newStatus(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "status [directory]",
		Short: "Say how a crawl is, running or not",
		Long: "Say how a crawl is, running or not. With --cluster, say how a crawl of several machines is, and which " +
			"machines work on it; without --name, " +
			"and if there are several crawls, list them.",
		Args: oneDirectory,
	})
	c.addDataDir()
	c.addCluster()
	c.addJSON("print one JSON object")
	return c.does(func(args []string) error {
		address, err := c.cluster(args)
		if err != nil {
			return err
		}
		if address != "" {
			return c.clusterStatus(address)
		}
		dir, err := c.existing(args)
		if err != nil {
			return err
		}
		if err := dir.CheckOld(); err != nil {
			return refusal(err)
		}
		live, err := c.statusOf(dir)
		if err != nil {
			return err
		}
		var found []problems.Problem
		// While the crawl runs, the report on disk is that of an earlier run.
		if rep, err := report.Read(dir); err == nil && rep != nil && live.PID == 0 {
			found = rep.Problems
		}
		if !c.asJSON {
			return printStatus(c.stdio, dir, live, found)
		}
		out := struct {
			*monitor.Live
			Problems *problems.Totals `json:"problems,omitempty"` // of the last report
		}{Live: live}
		if len(found) > 0 {
			out.Problems = new(problems.TotalsOf(found))
		}
		return json.NewEncoder(c.out).Encode(out)
	})
}

// statusOf asks the running crawl, or reads the directory of one that does not run.
func (c *command) statusOf(dir datadir.Dir) (*monitor.Live, error) {
	a, err := monitor.Ask(c.Context(), dir, monitor.Request{Command: "status"})
	if err == nil {
		return a.Live, nil
	}
	if !errors.Is(err, monitor.ErrNotRunning) {
		return nil, &exitError{exitFailed, err}
	}
	plan, planErr := datadir.ReadPlan(dir)
	if planErr != nil {
		return nil, refusal(planErr)
	}
	s, err := c.openStored(dir, false, err)
	if err != nil {
		return nil, err
	}
	live, err := monitor.Stored(c.Context(), s, plan)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, &exitError{exitFailed, err}
	}
	return live, nil
}

func printStatus(io stdio, dir datadir.Dir, l *monitor.Live, found []problems.Problem) error {
	t := newTable(io.out)
	state := string(l.State)
	if l.PID != 0 && l.Phase == monitor.Queueing {
		state = fmt.Sprintf("queued (pid %d)", l.PID)
	} else if l.PID != 0 {
		state = fmt.Sprintf("running (pid %d, for %s)", l.PID,
			time.Duration(l.Elapsed*float64(time.Second)).Round(time.Second))
	} else if l.State == page.Interrupted {
		state = fmt.Sprintf("interrupted: the last run was killed or failed; '%s' continues it", dir.Command("resume"))
	} else if l.Reason != "" {
		state = fmt.Sprintf("%s (%s)", l.State, l.Reason)
	}
	t.row("State", "%s", state)
	t.each("Start", l.StartURLs)
	t.row("Profile", "%s", l.Profile)
	if l.Insecure {
		t.row("Certificates", "%s", "NOT CHECKED (--insecure)")
	}
	if l.Generation > 0 {
		t.row("Generation", "%d (%s)", l.Generation, words.Count(int64(l.Generation), "recrawl"))
	}
	t.figures(l.Found, l.Done, l.Pending)
	if l.PID != 0 {
		t.row("In flight", "%d", l.InFlight)
		t.some("Hosts", words.Counts(l.Hosts, words.ByCount(l.Hosts)))
		t.row("Rate", "%.1f pages/s", l.PagesPerSec)
	}
	t.row("Outcomes", "%s", counts(l.Outcomes))
	if l.GivenUp > 0 {
		t.row("Blocked", "%s", words.Count(l.GivenUp, "URL waits because its host is blocked",
			"URLs wait because their hosts are blocked"))
	}
	t.row("Received", "%s", humanize.IBytes(uint64(l.Bytes)))
	t.limits(l.Limits)
	t.some("Waiting", l.Waiting)
	printProblems(t, found)
	if l.PID == 0 && l.Pending > 0 {
		t.some("Go on with", resumeHint(dir.Command("resume"), l.State, l.Reason, l.Profile,
			l.GivenUp > 0))
	}
	return t.Flush()
}
