package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mapwright/mapwright/internal/cluster"
	"github.com/mapwright/mapwright/internal/cluster/postgres"
	"github.com/mapwright/mapwright/internal/cluster/redis"
	"github.com/mapwright/mapwright/internal/cluster/replay"
	"github.com/mapwright/mapwright/internal/cluster/session"
	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/datadir"
	"github.com/mapwright/mapwright/internal/results/export"
	"github.com/mapwright/mapwright/internal/results/overview"
	"github.com/mapwright/mapwright/internal/results/report"
	"github.com/mapwright/mapwright/internal/words"
)

// addCluster gives a command the flags that say which crawl of several machines it means.
func (c *command) addCluster() {
	fs := c.Flags()
	fs.StringVar(&c.address, config.ClusterName, "",
		"`address` of the database that several machines share, such as postgres://user@host/database or "+
			"rediss://user@host:6379 (or "+config.EnvName(config.ClusterName)+")")
	fs.StringVar(&c.address, config.RedisURLName, "", "another name of --"+config.ClusterName)
	fs.StringVar(&c.replicas, config.ReplicasName, "",
		"a write to Redis is acknowledged when so many replicas have it, a `number`")
	fs.StringVar(&c.name, config.CrawlName, "", "`name` of a crawl of several machines")
}

// givesAddress reports whether a flag says the address of the cluster.
func (c *command) givesAddress() bool {
	return c.Flags().Changed(config.ClusterName) || c.Flags().Changed(config.RedisURLName)
}

// outsideAddress is the address of the cluster that the environment or a file says, empty for none.
func (c *command) outsideAddress() string {
	return cmp.Or(c.last(config.ClusterName), c.last(config.RedisURLName))
}

// cluster returns the address of the cluster, empty if the command is not about one. An address from the environment or
// a file is ignored if the command names a directory and no crawl.
func (c *command) cluster(args []string) (string, error) {
	flag := c.givesAddress()
	if flag && c.address == "" { // such as a variable of a script that is not set
		return "", usage("--cluster is empty")
	}
	address, directory := c.address, len(args) > 0 || c.Flags().Changed(config.DataDirName)
	if !flag && (!directory || c.name != "") {
		address = c.outsideAddress()
	}
	switch {
	case address == "" && c.name != "":
		return "", usage("--name is of a crawl of several machines: give --cluster too")
	case address != "" && len(args) > 0:
		return "", usage("a crawl of several machines has no directory: give --name instead of %q", args[0])
	case address != "" && c.name == "":
		c.name = c.last(config.CrawlName)
	}
	return address, nil
}

// toJoin returns the address of the cluster for a command that crawls, empty for a crawl of this machine alone.
func (c *command) toJoin() (string, error) {
	address, err := c.cluster(nil)
	if err == nil && address == "" && !c.givesAddress() {
		address = c.outsideAddress() // also with --data-dir: each machine has its own directory
	}
	return address, err
}

// openEngine connects to the database of several machines, whose kind is the scheme of its address. No error has a
// password in it.
func (c *command) openEngine(address string) (e cluster.Engine, err error) {
	scheme, _, _ := strings.Cut(address, "://")
	replicas := cmp.Or(c.replicas, c.last(config.ReplicasName))
	switch isRedis := redis.IsScheme(scheme); {
	case isRedis && replicas != "":
		if address, err = redis.WithReplicas(address, replicas); err != nil {
			return nil, usage("--%s: %w", config.ReplicasName, err)
		}
		fallthrough
	case isRedis:
		e, err = redis.Open(c.Context(), address)
	case c.replicas != "":
		return nil, usage("--%s is for Redis: the address is of another database", config.ReplicasName)
	default:
		e, err = postgres.Open(c.Context(), address)
	}
	if errors.Is(err, cluster.ErrAway) {
		return nil, &exitError{exitFailed, err}
	}
	if err != nil {
		return nil, refusal(err)
	}
	return e, nil
}

// atCrawl calls do with a snapshot of the crawl of several machines that --name names. Without a name it takes the only
// crawl; if there are several, the error is overview.ErrSeveral.
func (c *command) atCrawl(address string, do func(cluster.Engine, *cluster.Snapshot) error) error {
	e, err := c.openEngine(address)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := overview.Find(c.Context(), e, c.name)
	if err == nil {
		var snap *cluster.Snapshot
		if snap, err = e.Look(c.Context(), found.ID, cluster.Known{}); err == nil {
			return do(e, snap)
		}
	}
	switch {
	case errors.Is(err, overview.ErrSeveral):
		return usage("--name is missing: %w", err)
	case errors.Is(err, cluster.ErrNoCrawl) && c.name == "":
		return refusal(errors.New("the cluster has no crawl: start one with 'mapwright crawl --cluster ADDRESS " +
			"--start-url URL'"))
	case errors.Is(err, cluster.ErrNoCrawl):
		return refusal(err)
	}
	return &exitError{exitFailed, err}
}

// clusterStatus prints the status of one crawl, or the list of crawls if there are several and none is named.
func (c *command) clusterStatus(address string) error {
	err := c.atCrawl(address, func(e cluster.Engine, snap *cluster.Snapshot) error {
		status, err := overview.Of(snap)
		if sizer, ok := e.(cluster.Sizer); ok && err == nil {
			var memory cluster.Memory
			memory, err = sizer.Memory(c.Context(), snap.Crawl.ID)
			status.Memory = &memory
		}
		switch {
		case err != nil:
			return &exitError{exitFailed, err}
		case c.asJSON:
			return json.NewEncoder(c.out).Encode(status)
		}
		return printClusterStatus(c.stdio, status)
	})
	if errors.Is(err, overview.ErrSeveral) {
		return c.listCrawls(address)
	}
	return err
}

func (c *command) listCrawls(address string) error {
	e, err := c.openEngine(address)
	if err != nil {
		return err
	}
	defer e.Close()
	list, err := e.List(c.Context())
	if err != nil {
		return &exitError{exitFailed, err}
	}
	crawls := make([]overview.Crawl, len(list))
	for i := range list {
		crawls[i] = overview.Summary(&list[i])
	}
	if c.asJSON {
		return json.NewEncoder(c.out).Encode(map[string]any{"schema_version": overview.Version, "crawls": crawls})
	}
	w := newTable(c.out)
	fmt.Fprintln(w, "NAME\tSTATE\tCREATED\tWORKED FOR")
	for _, one := range crawls {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.Name, stateText(&one), one.CreatedAt.UTC().Format(time.DateTime),
			seconds(one.Elapsed))
	}
	return w.Flush()
}

func stateText(c *overview.Crawl) string {
	if c.Reason == "" {
		return string(c.State)
	}
	return fmt.Sprintf("%s (%s)", c.State, c.Reason)
}

func printClusterStatus(io stdio, s *overview.Status) error {
	t := newTable(io.out)
	t.row("Crawl", "%s", s.Name)
	state := stateText(&s.Crawl)
	alive := s.Alive()
	if s.State == cluster.Running && len(alive) == 0 {
		state += ", but no machine works on it: 'mapwright join' with the same --cluster goes on"
	}
	t.row("State", "%s", state)
	t.each("Start", s.StartURLs)
	if more := s.StartURLCount - len(s.StartURLs); more > 0 {
		t.row("", "and %s more", humanize.Comma(int64(more)))
	}
	t.row("Profile", "%s", s.Profile)
	t.row("Worked for", "%s, in %s", seconds(s.Elapsed), words.Count(int64(s.Run), "run"))
	if s.Generation > 0 {
		t.row("Generation", "%d", s.Generation)
	}
	t.figures(s.Found, s.Done, s.Pending)
	t.row("Outcomes", "%s", counts(s.Outcomes))
	t.row("Received", "%s", humanize.IBytes(uint64(s.Bytes)))
	if s.MaxURLs > 0 {
		t.row("Limit", "pages: %d of %d", s.Counted, s.MaxURLs)
	}
	if s.Handovers > 0 {
		more := ""
		if s.Handovers >= cluster.MostWaiting {
			more = " or more"
		}
		t.row("Hand-overs", "%s%s on their way between machines", humanize.Comma(int64(s.Handovers)), more)
	}
	if len(s.Sources) > 0 {
		t.row("Sources", "%s may still add URLs", strings.Join(s.Sources, ", "))
	}
	if s.Unowned > 0 && s.State == cluster.Running {
		t.row("Without machine", "%d of %d partitions", s.Unowned, cluster.Partitions)
	}
	if m := s.Memory; m != nil {
		most := ""
		if m.Most > 0 {
			most = " of " + humanize.IBytes(m.Most)
		}
		t.row("Server", "uses %s%s of memory, %s for this crawl", humanize.IBytes(m.Used), most, humanize.IBytes(m.Crawl))
	}
	if s.State == cluster.Finished {
		t.some("Go on with", clusterResumeHint(s.Name, s.Reason))
	}
	if err := t.Flush(); err != nil || len(s.Machines) == 0 {
		return err
	}
	fmt.Fprintln(t, "\nMACHINE\tPARTITIONS\tBATCHES\tA BATCH TAKES\tTAKEN OVER\tFENCED\tLAST BEAT")
	for _, m := range s.Machines {
		beat := fmt.Sprintf("%.1f s ago", m.Silent)
		switch {
		case !m.Alive && len(alive) > 0:
			beat += ": others take over its partitions"
		case !m.Alive:
			beat += ": it was lost"
		}
		if m.Alive && m.Replaying > 0 {
			beat += fmt.Sprintf(": reads the logs of %s, %s left", words.Count(int64(m.Replaying), "partition"),
				words.Count(int64(m.RowsLeft), "row"))
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%.1f ms\t%d\t%d\t%s\n", m.Name, m.Partitions, humanize.Comma(int64(m.Batches)),
			m.BatchMS, m.Takeovers, m.Fenced, beat)
	}
	return t.Flush()
}

// clusterResumeHint is the command that continues a crawl of several machines which a limit has ended, empty for
// another reason.
func clusterResumeHint(name, reason string) string {
	flag := map[string]string{session.ReasonLimit: "--max-urls N", session.ReasonPerHost: "--max-urls-per-host N",
		session.ReasonDuration: "--duration D"}[reason]
	if flag == "" {
		return ""
	}
	return fmt.Sprintf("mapwright resume --cluster ADDRESS --name %s %s (in all; 0 is no limit)", name, flag)
}

// exportCluster writes the files of a crawl of several machines, from a store that is made of all their logs for this
// purpose.
func (c *command) exportCluster(address, scratchIn, out string, formats []string) (res *export.Result, err error) {
	err = c.atCrawl(address, func(e cluster.Engine, snap *cluster.Snapshot) (err error) {
		plan, err := datadir.DecodePlan(snap.Crawl.Plan, "the plan of crawl "+snap.Crawl.Name)
		if err != nil {
			return &exitError{exitFailed, err}
		}
		o, types, err := c.exportOptions(plan, out, formats)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return refusal(err)
		}
		if scratchIn != "" {
			if err := os.MkdirAll(scratchIn, 0o700); err != nil {
				return refusal(err)
			}
		}
		scratch, err := os.MkdirTemp(scratchIn, "mapwright-export-")
		if err != nil {
			return refusal(err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
		s, err := replay.Open(c.Context(), e, snap, filepath.Join(scratch, "state"))
		if other, ok := errors.AsType[*cluster.IdentityError](err); ok {
			return refusal(other)
		}
		advice := fmt.Sprintf("the export needs space for all pages in %s; --data-dir names another directory",
			filepath.Dir(scratch))
		if err == nil {
			res, err = report.Export(c.Context(), s, types, *o)
			err = errors.Join(err, s.Close())
		}
		return exportFailed(err, advice)
	})
	return res, err
}

// working returns the names of the machines that work on a crawl. After the crawl has ended, only the machine that
// writes the report is among them: it still owns partitions.
func working(s *cluster.Snapshot) []string {
	var names []string
	for i := range s.Members {
		m := &s.Members[i]
		owns := slices.ContainsFunc(s.Parts[:], func(p cluster.Part) bool { return p.Owner == m.Session })
		if s.Alive(m) && (owns || s.Crawl.State == cluster.Running) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// wipeCluster deletes a crawl of several machines from their database.
func (c *command) wipeCluster(e cluster.Engine, snap *cluster.Snapshot, yes, force bool) error {
	alive := working(snap)
	if len(alive) > 0 && !force {
		return refusal(fmt.Errorf("%s on crawl %s (%s): nothing was deleted; stop them first, or wait %s if they "+
			"were killed; --force deletes the crawl under them, and they end",
			words.Count(int64(len(alive)), "machine works", "machines work"), snap.Crawl.Name,
			strings.Join(alive, ", "), cluster.Lease))
	}
	counters, err := snap.Counters()
	if err != nil && !force {
		return &exitError{exitFailed, err}
	}
	if !yes {
		fmt.Fprintf(c.out, "Delete crawl %s (%s, %s URLs found) from the cluster? [y/N] ", snap.Crawl.Name,
			snap.Crawl.State, humanize.Comma(int64(counters.Discovered)))
		if err := confirm(c.stdio); err != nil {
			return err
		}
	}
	if err := e.Delete(c.Context(), snap.Crawl.ID); err != nil {
		return &exitError{exitFailed, err}
	}
	fmt.Fprintf(c.out, "Deleted crawl %s from the cluster. Data directories of its machines are left: 'mapwright "+
		"wipe --data-dir DIR' deletes one.\n", snap.Crawl.Name)
	return nil
}

// confirm reads the answer to a question. Anything but yes is an error.
func confirm(io stdio) error {
	answer, err := bufio.NewReader(io.in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		if err != nil && a == "" {
			fmt.Fprintln(io.out)
		}
		return &exitError{exitFailed, errors.New("nothing was deleted (--yes deletes without asking)")}
	}
	return nil
}
