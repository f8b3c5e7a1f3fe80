package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/crawl"
	"github.com/mapwright/mapwright/internal/crawl/scope"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/state"
)

func newJoin(root *command) *cobra.Command {
	c := root.sub(&cobra.Command{
		Use:   "join --cluster ADDRESS [directory]",
		Short: "Work on a crawl of several machines",
		Long: "Work on a crawl of several machines, which 'mapwright crawl --cluster' has made. If there is none " +
			"that runs, wait for one. The command ends when the crawl does; " +
			"the first signal makes the machine hand its share over to the others and leave. The crawl has its " +
			"settings; flags and variables that are about this process count here, such as --log-level. " +
			"The data directory holds what this machine works with, and can be deleted after that.",
		Example: `  mapwright join --cluster postgres://mapwright@db.example/crawls
  mapwright join --cluster postgres://mapwright@db.example/crawls --name example.com --data-dir second`,
		Args: oneDirectory,
	})
	c.addDataDir()
	c.addCluster()
	c.addSettings()
	hideOfCrawl(c.Command)
	c.addQuiet()
	c.addJSON("print the report, if this machine writes it, as JSON instead of a table")
	return c.does(func(args []string) error {
		dir, dirErr := c.existing(args)
		address, err := c.toJoin()
		if err == nil && address == "" {
			err = usage("--cluster is missing: the address of the database that the machines share")
		}
		if err := errors.Join(err, dirErr, c.checkJoined()); err != nil {
			return err
		}
		if err := checkMachineDir(dir); err != nil {
			return refusal(err)
		}
		return (&machine{command: c, dir: dir, address: address, waits: true}).join()
	})
}

// checkMachineDir says whether a machine of a cluster may use a directory: it is new, or has the view of an earlier
// session.
func checkMachineDir(dir datadir.Dir) error {
	info, err := state.Look(dir.State())
	switch {
	case err == nil && info.PID != 0:
		return &datadir.BusyError{Dir: dir, PID: info.PID}
	case err == nil && info.View:
		return nil
	case err == nil && info.Exists:
		return fmt.Errorf("data directory %s %w of this machine alone: choose another --data-dir", dir, datadir.ErrHas)
	}
	if _, err := os.Stat(dir.Machine()); err == nil {
		return nil
	}
	return dir.CheckNew()
}

// checkName refuses a name for a crawl that would have to be quoted in a command, or that a terminal would not show.
func checkName(name string) error {
	for i, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || i > 0 && r == '-' || strings.ContainsRune("._:@+[]", r) {
			continue
		}
		return usage("--name %q cannot be the name of a crawl: letters, digits and . _ - : @ + can, and - not at the "+
			"beginning", name)
	}
	if len(name) > maxName {
		return usage("--name has %d bytes, at most %d are allowed", len(name), maxName)
	}
	return nil
}

// maxName bounds the name of a crawl, which may hold that of a host.
const maxName = 300

// crawl makes a crawl of several machines, and works on it.
func (m *machine) crawl(s *config.Settings, starts []datadir.Start) error {
	if s.Profile == config.Safe {
		return errSafe
	}
	if err := checkName(m.name); err != nil {
		return err
	}
	if err := checkMachineDir(m.dir); err != nil {
		return refusal(err)
	}
	var err error
	if m.engine, err = m.openEngine(m.address); err != nil {
		return err
	}
	defer m.engine.Close()
	// Each machine logs in when it begins. Here only a login that fails matters: no crawl is made then.
	f, err := crawl.NewFetcher(s, starts)
	if err != nil {
		return usage("%w", err)
	}
	if err := crawl.LogIn(m.Context(), f, s); err != nil {
		return refusal(err)
	}
	if err := m.create(s, starts); err != nil {
		return err
	}
	fmt.Fprintf(m.err, "mapwright: crawl %s is in the cluster; 'mapwright join --name %s' with the same --cluster "+
		"adds a machine\n", m.name, m.name)
	// From here on only the flags about this process count; the others are in the plan.
	m.keepProcess()
	return m.join()
}

// create makes a crawl in the cluster, and gives it a name if it has none.
func (m *machine) create(s *config.Settings, starts []datadir.Start) error {
	plan, err := datadir.NewPlan(s, starts).Encode()
	if err != nil {
		return err
	}
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	m.name = cmp.Or(m.name, fmt.Sprintf("%s-%s", starts[0].URL.Host(), hex.EncodeToString(random[8:])))
	row := cluster.Crawl{
		ID: cluster.NewID(), Name: m.name, Seed: binary.BigEndian.Uint64(random[:]), Identity: weburl.Identity(),
		Plan: plan, MaxURLs: uint64(s.PageCap()),
	}
	err = m.engine.Create(m.Context(), row, session.TokenStart)
	switch {
	case errors.Is(err, cluster.ErrExists):
		return refusal(fmt.Errorf("the cluster has a crawl %q: 'mapwright join --name %s' works on it, "+
			"'mapwright wipe --cluster ADDRESS --name %s' deletes it", m.name, m.name, m.name))
	case err != nil:
		return &exitError{exitFailed, err}
	}
	return nil
}

// A machine is this process as one of several that work on a crawl. If the command names no crawl, it means the only
// one that runs or, with resume, the only one that there is.
type machine struct {
	*command
	dir     datadir.Dir
	address string
	waits   bool           // waits for a crawl if there is none
	resume  bool           // begins another run of a crawl that has ended
	again   *crawl.Recrawl // the run is a recrawl; with resume
	engine  cluster.Engine
	id      cluster.MachineID

	announced bool          // what a crash of the engine can cost
	warnings  []string      // of earlier sessions, for the report
	earlier   cluster.Tally // of earlier sessions
}

// join works on a crawl until it ends. If a session ends before the crawl, join begins another.
func (m *machine) join() (err error) {
	if m.engine == nil {
		if m.engine, err = m.openEngine(m.address); err != nil {
			return err
		}
		defer m.engine.Close()
	}
	if m.id, err = machineID(m.dir); err != nil {
		return refusal(err)
	}
	for again := true; again; {
		again, err = m.session()
	}
	return err
}

// session works on a crawl in one session, and reports whether another session must follow.
func (m *machine) session() (again bool, err error) {
	row, err := m.find()
	if err != nil {
		return false, err
	}
	if row.State != cluster.Running && !m.resume {
		fmt.Fprintf(m.out, "Crawl %s is %s (%s): there is nothing to do for this machine.\n", row.Name, row.State,
			row.Reason)
		return false, nil
	}
	if _, retry := m.given[retryName]; retry && row.State == cluster.Running {
		return false, usage("--%s is for another run of a crawl that has ended, and crawl %s is running", retryName,
			row.Name)
	}
	snap, err := m.engine.Look(m.Context(), row.ID, cluster.Known{})
	if errors.Is(err, cluster.ErrAway) {
		return true, nil // find waits for it
	}
	if err != nil {
		return false, &exitError{exitFailed, err}
	}
	plan, err := datadir.DecodePlan(snap.Crawl.Plan, "the plan of crawl "+row.Name)
	if err != nil {
		return false, &exitError{exitFailed, err}
	}
	if m.again != nil {
		if err := m.planRecrawl(plan, &snap.Crawl); err != nil {
			return false, err
		}
	}
	var loaded *config.Loaded
	var resume *session.Resume
	if m.resume && (row.State != cluster.Running || len(m.ofCrawl()) > 0) {
		loaded, resume, err = m.loadResumed(plan, snap.Crawl.Run)
	} else {
		loaded, err = m.loadRun(plan.Settings, true)
	}
	if err != nil {
		return false, err
	}
	if d, ok := m.engine.(interface{ Durability() string }); ok && !m.quiet && !m.announced {
		fmt.Fprintln(m.err, "mapwright: "+d.Durability())
	}
	m.announced = true
	var joined *session.Session
	err = m.runCrawl(crawl.Options{Settings: loaded.Settings, Plan: plan, Dir: m.dir, Warnings: m.warnings},
		loaded.Warnings, func(ctx context.Context, log *slog.Logger) (_ *session.Session, err error) {
			host, _ := os.Hostname()
			joined, err = session.Join(ctx, session.Options{
				Engine: m.engine, Crawl: row.ID, Machine: m.id, Name: fmt.Sprintf("%s:%d", host, os.Getpid()),
				Log: log, Resume: resume, Earlier: m.earlier, PlanVersion: snap.Crawl.PlanVersion,
			})
			return joined, err
		})
	m.name = row.Name
	if joined != nil {
		m.earlier = joined.Tally()
		if joined.Resumed() {
			m.resume, m.again = false, nil
			m.keepProcess()
		}
	}
	if errors.Is(err, cluster.ErrRolledBack) {
		m.warnings = append(m.warnings, lostText)
	}
	return errors.Is(err, errAgain), err
}

// lostText is about an engine that was rolled back.
const lostText = "the engine has lost data that it had acknowledged, as after a failover to a standby that was " +
	"behind: the crawl goes on from what it has, and pages may be fetched again"

// errAgain means that a session is over, and that the machine should join again.
var errAgain = errors.New("the session is over")

// find returns the crawl to work on. It waits while the engine cannot be reached and, if m.waits is set, until there is
// a crawl.
func (m *machine) find() (*cluster.Crawl, error) {
	ctx, stop := signal.NotifyContext(m.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	said := ""
	say := func(text string) {
		if text != said {
			fmt.Fprintln(m.err, "mapwright: "+text)
		}
		said = text
	}
	for {
		list, err := m.engine.List(ctx)
		away := errors.Is(err, cluster.ErrAway)
		if ctx.Err() != nil {
			return nil, &exitError{exitInterrupted, errors.New("interrupted while it waited for a crawl")}
		}
		if err != nil && !away {
			return nil, &exitError{exitFailed, err}
		}
		if m.name == "" && !m.resume {
			list = slices.DeleteFunc(list, func(c cluster.Crawl) bool { return c.State != cluster.Running })
		}
		var names []string
		for i := range list {
			if names = append(names, list[i].Name); list[i].Name == m.name || m.name == "" && len(list) == 1 {
				return &list[i], nil
			}
		}
		switch {
		case away:
			say("waiting for the engine, which cannot be reached")
		case m.name == "" && len(names) > 1:
			return nil, usage("there are several crawls: --name says which (%s)", strings.Join(names, ", "))
		case !m.waits:
			return nil, refusal(fmt.Errorf("%q: %w", m.name, cluster.ErrNoCrawl))
		default:
			say(waitingText(m.name, names))
		}
		select {
		case <-ctx.Done(): // List returns at once
		case <-time.After(cluster.BeatEvery):
		}
	}
}

// waitingText says what a machine waits for. The name may be mistyped, so the text lists the crawls that the cluster
// has.
func waitingText(name string, names []string) string {
	switch {
	case name == "":
		return "waiting for a crawl: 'mapwright crawl --cluster ADDRESS --start-url URL' makes one"
	case len(names) == 0:
		return fmt.Sprintf("waiting for a crawl %s: 'mapwright crawl --cluster ADDRESS --name %s --start-url URL' "+
			"makes it", name, name)
	}
	return fmt.Sprintf("waiting for a crawl %s; the cluster has only %s", name, strings.Join(names, ", "))
}

// machineID reads the identifier of the machine whose directory it is, or makes one.
func machineID(dir datadir.Dir) (id cluster.MachineID, err error) {
	text, err := os.ReadFile(dir.Machine())
	if err == nil {
		if n, err := hex.Decode(id[:], []byte(strings.TrimSpace(string(text)))); err == nil && n == len(id) {
			return id, nil
		}
	}
	id = cluster.NewID()
	if err := datadir.Make(string(dir)); err != nil {
		return id, fmt.Errorf("data directory %s %w: %w", dir, datadir.ErrUnusable, err)
	}
	return id, datadir.WriteFile(dir.Machine(), datadir.Private, []byte(id.String()+"\n"))
}

// planRecrawl puts another generation into the plan of a crawl that has ended.
func (m *machine) planRecrawl(plan *datadir.Plan, row *cluster.Crawl) error {
	if row.State != cluster.Finished {
		return refusal(fmt.Errorf("crawl %s %w: it is not finished; 'mapwright join --name %s' goes on with it",
			row.Name, crawl.ErrNotAgain, row.Name))
	}
	err := crawl.PlanRecrawl(plan, m.again, row.Run, row.Used, row.Reason == session.ReasonFailed)
	if err != nil {
		return refusal(fmt.Errorf("crawl %s: %w", row.Name, err))
	}
	return nil
}

// loadResumed lays flags over the stored settings of a crawl of several machines, which has had so many runs. It
// returns the settings, and the plan and the page limit that the next run stores in the engine.
func (c *command) loadResumed(plan *datadir.Plan, runs uint64) (*config.Loaded, *session.Resume, error) {
	loaded, err := c.loadRun(plan.Settings, false)
	if err != nil {
		return nil, nil, err
	}
	if loaded.Settings.Profile == config.Safe {
		return nil, nil, errSafe
	}
	if err := checkNotWider(plan, loaded.Settings); err != nil {
		return nil, nil, err
	}
	plan.Settings = loaded.Settings.Stored()
	text, err := plan.Encode()
	if err != nil {
		return nil, nil, err
	}
	return loaded, &session.Resume{
		Plan: text, MaxURLs: uint64(loaded.Settings.PageCap()),
		Anew: plan.Generation != nil && plan.Generation.Run == runs+1,
	}, nil
}

// checkNotWider refuses scope rules that accept links which the crawl has left out so far. The pages with these links
// would have to be visited again, and several machines cannot do that together.
func checkNotWider(plan *datadir.Plan, s *config.Settings) error {
	had, err := config.Load(config.FromStored(plan.Settings))
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("read the settings of the crawl: %w", err)}
	}
	before, now := scope.RulesOf(had.Settings), scope.RulesOf(s)
	wider := now.Wider(&before)
	if len(wider) == 0 {
		return nil
	}
	names := make([]string, len(wider))
	for i, why := range wider {
		names[i] = why.String()
	}
	return usage("a crawl of several machines cannot be given a wider scope or further checks of links: what it left "+
		"out so far (%s in report.json) would be missing from its map. Start another crawl with these settings",
		strings.Join(names, ", "))
}

// retryName is the setting that makes another run try pages again.
const retryName = "retry-crashed"

// keepProcess forgets the flags that are about the crawl: they are in its plan, or have had their effect.
func (c *command) keepProcess() {
	for _, name := range namesOfCrawl() {
		delete(c.given, name)
	}
}

// namesOfCrawl are the names of the settings that are about a crawl, and not about a process.
func namesOfCrawl() []string {
	names := []string{config.ProfileName, config.SafeName, retryName}
	for _, e := range config.Defaults(config.Polite).Table() {
		if !e.PerRun && !e.Local {
			names = append(names, e.Name)
		}
	}
	for _, short := range config.Shorts() {
		if !short.PerRun {
			names = append(names, short.Name)
		}
	}
	return names
}

// hideOfCrawl leaves the flags that are about the crawl out of the help of a command that refuses them.
func hideOfCrawl(cmd *cobra.Command) {
	names := namesOfCrawl()
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if r, ok := flag.Value.(*recorder); ok && slices.Contains(names, r.setting) {
			flag.Hidden = true
		}
	})
}

// errSafe refuses the safe profile for several machines.
var errSafe = usage("the safe profile is for one machine and at most %d pages: it does not go with --cluster",
	config.SafePages)

// ofCrawl returns the flags that are about the crawl, and not about this process.
func (c *command) ofCrawl() (names []string) {
	for _, name := range namesOfCrawl() {
		if given, ok := c.given[name]; ok {
			names = append(names, given.From)
		}
	}
	return names
}

// checkJoined refuses flags about the crawl: all machines have the same.
func (c *command) checkJoined() error {
	if wrong := c.ofCrawl(); len(wrong) > 0 {
		return usage("the crawl has its settings, which hold for all its machines: %s cannot be given here; "+
			"'mapwright resume' changes them", strings.Join(wrong, ", "))
	}
	return nil
}
