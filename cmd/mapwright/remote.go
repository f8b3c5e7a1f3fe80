package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mapwright/mapwright/internal/config"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/service"
	"github.com/mapwright/mapwright/internal/service/client"
)

// Environment variables of 'mapwright remote'.
const (
	serverVariable = config.EnvPrefix + "SERVER"
	keyVariable    = config.EnvPrefix + "KEY"
)

const defaultServer = "http://127.0.0.1:8080"

// remote is the server that the commands below 'mapwright remote' use.
type remote struct {
	*command
	server  string
	key     string
	keyFile string
}

func newRemote(root *command) *cobra.Command {
	r := &remote{command: root.sub(&cobra.Command{
		Use:   "remote",
		Short: "Use a server that 'mapwright serve' runs",
		Long: "Use a server that 'mapwright serve' runs. The server and the key are given by flags, or by the " +
			"environment variables " + serverVariable + " and " + keyVariable +
			", which other users of the machine cannot see.",
		Example: `  export ` + keyVariable + `=$(mapwright keys create --scope write)
  mapwright remote submit https://example.com/ --max-urls 1000 --watch
  mapwright remote list
  mapwright remote get ID pages.jsonl --output pages.jsonl`,
		Args: oneOfTheCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	})}
	r.err = page.EscapingWriter{Writer: r.err} // the server gives a part, and sites that it crawls
	flags := r.PersistentFlags()
	flags.StringVar(&r.server, "server", cmp.Or(lookup(r.environ, serverVariable), defaultServer),
		"`URL` of the server, with its base path")
	flags.StringVar(&r.key, "key", "", "`key` of an account; other users of the machine may see it here")
	flags.StringVar(&r.keyFile, "key-file", "", "`file` that holds the key")
	r.AddCommand(r.submit(), r.list(), r.queue(), r.get(), r.watch(), r.edit(),
		r.ask(service.CommandPause, "Pause a crawl; 'remote resume' goes on with it"),
		r.ask(service.CommandResume, "Go on with a crawl that is paused, partial or failed"),
		r.ask(service.CommandCancel, "End a crawl; what it found is written"),
		r.recrawl(),
		r.ask(service.CommandDelete, "Delete a crawl and all its data"), r.health())
	return r.Command
}

// with makes do the body of a command that uses the server. It gives the errors of requests their exit status.
func (r *remote) with(do func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return r.failed(do(cmd, c, args))
	}
}

// addJSON gives a command the flag --json.
func (r *remote) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON")
}

// client makes the client of a command.
func (r *remote) client() (*client.Client, error) {
	key := r.key
	if r.keyFile != "" {
		if key != "" {
			return nil, usage("the key is given twice, by --key and by --key-file")
		}
		text, err := os.ReadFile(r.keyFile)
		if err != nil {
			return nil, refusal(fmt.Errorf("read the key: %w", err))
		}
		key = strings.TrimSpace(string(text))
	}
	key = cmp.Or(key, lookup(r.environ, keyVariable))
	if key == "" {
		return nil, usage("no key: set %s, or give --key-file; 'mapwright keys create' makes one", keyVariable)
	}
	c, err := client.New(client.Options{URL: r.server, Key: key, Lost: func(err error) {
		fmt.Fprintf(r.err, "mapwright: the stream of events broke, which is tried again: %v\n", err)
	}})
	if err != nil {
		return nil, refusal(err)
	}
	return c, nil
}

// failed gives the error of a request its exit status. If the server refused the request, it is the caller's mistake.
func (r *remote) failed(err error) error {
	if _, done := errors.AsType[*exitError](err); done || err == nil {
		return err
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status < 500 {
		return refusal(err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &exitError{exitFailed,
			fmt.Errorf("cannot reach server %s: %w; does 'mapwright serve' run there? --server or %s gives another "+
				"address", r.server, op.Err, serverVariable)}
	}
	return &exitError{exitFailed, fmt.Errorf("server %s: %w", r.server, err)}
}

// healthTime is how long a server may take to say that it is well.
const healthTime = 5 * time.Second

// health asks a server whether it is well. It needs no key: containers call it, which have no other program for that.
func (r *remote) health() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask a server, or a crawl with --metrics-addr, whether it is well; needs no key",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTime)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet,
				strings.TrimSuffix(r.server, "/")+"/healthz", nil)
			if err != nil || request.URL.Host == "" {
				return usage("server %q is not an http or https URL", r.server)
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return r.failed(errors.Unwrap(err)) // without the URL, which the message has already
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
			if err != nil {
				return r.failed(err)
			}
			said := strings.TrimSpace(string(text))
			if answer.StatusCode != http.StatusOK {
				return &exitError{exitFailed, fmt.Errorf("server %s: status %d: %s", r.server, answer.StatusCode, said)}
			}
			_, err = fmt.Fprintln(r.out, said)
			return err
		},
	}
}

// crawlIDs checks that a command has at least least and at most most arguments.
func crawlIDs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage("no crawl: give its ID, as 'mapwright remote list' shows it")
		case len(args) > most:
			return usage("%s takes no argument %q: '%s --help' shows its use", cmd.Name(), args[most],
				cmd.CommandPath())
		}
		return nil
	}
}

// printJSON prints a value as one line.
func (r *remote) printJSON(v any) error { return json.NewEncoder(r.out).Encode(v) }

func (r *remote) submit() *cobra.Command {
	var s service.Submission
	cmd := r.sub(&cobra.Command{
		Use:   "submit [--start-url] URL...",
		Short: "Submit a crawl",
		Long: "Submit a crawl. The settings are those of 'mapwright crawl'; the server says which of them the key " +
			"may use.",
	})
	cmd.environ = nil // that of this machine does not count
	flags := cmd.Flags()
	starts := flags.StringArrayP(config.StartURLName, "u", nil,
		"`URL`, domain, file with one per line, or - for standard input (repeatable)")
	flags.StringVar(&s.Name, "name", "", "`name` of the crawl")
	flags.StringArrayVar(&s.Labels, "label", nil, "`label` of the crawl (repeatable)")
	priority := flags.Int("queue-priority", 5, "0 to 9; crawls with a higher `number` run first")
	flags.StringVar(&s.Plan, "plan", "", "`name` of a plan that the account may use")
	repeat := flags.String("idempotency-key", "",
		"any `text` that names this request: if it is repeated, no second crawl is made")
	follow := flags.BoolP("watch", "w", false, "show the crawl until it ends")
	r.addJSON(cmd.Command)
	cmd.addSettings()
	cmd.RunE = r.with(func(_ *cobra.Command, c *client.Client, args []string) error {
		settings, err := cmd.givenSettings()
		urls, startsErr := readStarts(append(*starts, args...), r.in)
		if err := errors.Join(err, startsErr); err != nil {
			return err
		}
		for _, u := range urls {
			text := u.URL.String()
			if u.Bare {
				text = u.URL.Host()
			}
			s.StartURLs = append(s.StartURLs, text)
		}
		s.Settings, s.Priority = settings, ifGiven(cmd.Command, "queue-priority", *priority)
		crawl, err := c.Submit(cmd.Context(), s, *repeat)
		if err != nil {
			return err
		}
		if *follow {
			fmt.Fprintf(r.err, "mapwright: crawl %s is accepted\n", crawl.ID)
			return r.follow(cmd.Context(), c, crawl.ID)
		}
		if r.asJSON {
			return r.printJSON(crawl)
		}
		_, err = fmt.Fprintln(r.out, crawl.ID)
		return err
	})
	return cmd.Command
}

// givenSettings are the settings that flags or a configuration file give, as the API takes them.
func (c *command) givenSettings() (map[string]json.RawMessage, error) {
	c.given, c.givenErr = c.given.SpellOut()
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	for _, layer := range []config.Layer{c.sources().file, c.given} {
		for name := range layer {
			given[name] = true
		}
	}
	out := map[string]json.RawMessage{}
	put := func(name string, value any) error {
		text, err := json.Marshal(value)
		out[config.FileKey(name)] = text
		return err
	}
	if given[config.ProfileName] || given[config.SafeName] {
		if err := put(config.ProfileName, loaded.Settings.Profile); err != nil {
			return nil, err
		}
	}
	for _, e := range loaded.Settings.Table() {
		if given[e.Name] {
			if err := e.ReadFiles(); err != nil { // they are on this machine
				return nil, usage("%s: %w", e.Name, err)
			}
			if err := put(e.Name, e.Value.JSON()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (r *remote) edit() *cobra.Command {
	cmd := r.sub(&cobra.Command{
		Use: "edit ID",
		Short: "Change a crawl: its name, labels, priority, limits, while it is paused its scope, and before it has " +
			"begun everything",
		Args: crawlIDs(1, 1),
	})
	cmd.environ = nil // that of this machine does not count
	flags := cmd.Flags()
	name := flags.String("name", "", "`name` of the crawl")
	plan := flags.String("plan", "", "`name` of a plan that the account may use")
	labels := flags.StringArray("label", nil, "`label` of the crawl, instead of those that it has (repeatable)")
	priority := flags.Int("queue-priority", 5, "0 to 9; crawls with a higher `number` run first")
	r.addJSON(cmd.Command)
	cmd.addSettings()
	cmd.RunE = r.with(func(cobraCmd *cobra.Command, c *client.Client, args []string) error {
		settings, err := cmd.givenSettings()
		if err != nil {
			return err
		}
		return r.print(c.Edit(cmd.Context(), args[0], service.Edit{Settings: settings,
			Name: ifGiven(cobraCmd, "name", *name), Plan: ifGiven(cobraCmd, "plan", *plan),
			Labels: ifGiven(cobraCmd, "label", *labels), Priority: ifGiven(cobraCmd, "queue-priority", *priority)}))
	})
	return cmd.Command
}

// ask makes the subcommand that sends one service.Command to crawls, such as pause.
func (r *remote) ask(command service.Command, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   string(command) + " ID...",
		Short: short,
		Args:  crawlIDs(1, math.MaxInt),
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var failed []error
			for _, id := range args {
				failed = append(failed, r.print(c.Command(cmd.Context(), id, command)))
			}
			return errors.Join(failed...)
		}),
	}
	r.addJSON(cmd)
	return cmd
}

func (r *remote) recrawl() *cobra.Command {
	var (
		what   service.Recrawl
		follow bool
	)
	cmd := &cobra.Command{
		Use:   "recrawl ID",
		Short: "Visit the URLs of a finished crawl again, and find out what changed",
		Args:  crawlIDs(1, 1),
		RunE: r.with(func(cmd *cobra.Command, c *client.Client, args []string) error {
			crawl, err := c.Recrawl(cmd.Context(), args[0], what)
			if follow && err == nil {
				return r.follow(cmd.Context(), c, crawl.ID)
			}
			return r.print(crawl, err)
		}),
	}
	cmd.Flags().StringVar(&what.MaxAge, "max-age", "",
		"visit only URLs whose last check is longer ago than this `age`, such as 12h, 7d or 2w")
	cmd.Flags().StringArrayVar(&what.Include, "include", nil,
		"visit only known URLs that match this `expression` (repeatable)")
	cmd.Flags().StringArrayVar(&what.Exclude, "exclude", nil,
		"visit no known URLs that match this `expression` (repeatable)")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "show the crawl until it ends")
	r.addJSON(cmd)
	return cmd
}
