package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mapwright/mapwright/internal/config"
)

// command is a command of the program, with the flags that several commands have. The flags of settings only remember
// what was given: the values are read, checked and laid over the other layers by config.Load.
type command struct {
	*cobra.Command
	stdio
	environ []string

	asJSON        bool
	quiet         bool
	dry           *dryRun // nil if pages are fetched
	printsConfig  bool    // instead of crawling
	dataDir       string  // empty if the flag was given an empty text: see directory
	address, name string  // of the crawl of several machines that is meant
	replicas      string  // of the cluster's server that must have a write; empty if not given

	base       config.Layer // the command's own defaults of settings, below every other layer
	given      config.Layer // settings that were given as flags
	givenErr   error        // faults of given, set before the command runs
	configFile string
	read       *sources // set by the first call of sources
}

// sub is a command below c, or beside it, without flags.
func (c *command) sub(cmd *cobra.Command) *command {
	return &command{Command: cmd, stdio: c.stdio, environ: c.environ, given: config.Layer{}}
}

// does says what the command does.
func (c *command) does(run func(args []string) error) *cobra.Command {
	c.RunE = func(_ *cobra.Command, args []string) error {
		if c.quiet && c.Flags().Changed("verbose") {
			return usage("--quiet and --verbose contradict each other: give one of them")
		}
		c.given, c.givenErr = c.given.SpellOut()
		return run(args)
	}
	return c.Command
}

func (c *command) addQuiet() {
	c.Flags().BoolVarP(&c.quiet, "quiet", "q", false,
		"print nothing but warnings and errors; the whole log is in the data directory")
}

func (c *command) addJSON(usage string) { c.Flags().BoolVar(&c.asJSON, "json", false, usage) }

// addRun gives a command that crawls its flags.
func (c *command) addRun() {
	c.addDataDir()
	c.addCluster()
	c.addSettings()
	c.Flags().BoolVar(&c.printsConfig, "print-config", false,
		"show each effective setting and where it came from, and do nothing else")
	c.addQuiet()
	c.addJSON("print the report, or with --print-config the settings, as JSON instead of a table")
}

// sources are the layers that are not flags, and the faults met while reading them.
type sources struct {
	file, env       config.Layer
	fileErr, envErr error
}

// addSettings gives a command a flag for each setting of the named groups, or of all, and --profile, --safe and
// --config.
func (c *command) addSettings(groups ...config.Group) {
	fs := c.Flags()
	fs.SortFlags = false
	add := func(setting, name, letter, shown, kind, usage string) *pflag.Flag {
		flag := fs.VarPF(&recorder{c.given, setting, name, shown, kind}, name, letter, usage)
		if kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		return flag
	}
	profiles := config.Profiles()
	add(config.ProfileName, "profile", "", profiles[0], "name",
		"how hard servers are asked: polite, own-site (yours: as "+
			"hard as it copes with) or safe (at most 50 pages and 60 s)")
	complete(c.Command, "profile", profiles)
	add(config.SafeName, "safe", "", "", "bool", "short for --profile safe")
	fs.StringVar(&c.configFile, "config", "", "YAML `file` with settings")
	for _, e := range config.Defaults(config.Polite).Table() {
		if len(groups) > 0 && !slices.Contains(groups, e.Group) {
			continue
		}
		shown := e.Value.String()
		if shown == "0s" {
			shown = "" // help has nothing to say
		}
		for i, name := range append([]string{e.Name}, e.Flags...) {
			flag := add(e.Name, name, "", shown, e.Value.Type(), e.Usage)
			flag.Hidden = i > 0
			flag.Annotations = map[string][]string{groupOfFlag: {string(e.Group)}}
			if v, ok := e.Value.(interface{ Choices() []string }); ok && v.Choices() != nil {
				complete(c.Command, name, v.Choices())
			}
		}
	}
	for _, short := range config.Shorts() {
		if len(groups) > 0 && !slices.Contains(groups, short.Group) {
			continue
		}
		flag := add(short.Name, short.Name, short.Letter, "", short.Kind, short.Usage)
		flag.Annotations = map[string][]string{groupOfFlag: {string(short.Group)}}
	}
	c.SetUsageFunc(usageByGroup)
}

// recorder is a flag that writes down what it was given.
type recorder struct {
	given   config.Layer
	setting string
	flag    string
	shown   string // the default, for help
	kind    string // for help
}

var _ pflag.Value = (*recorder)(nil)

func (r *recorder) Set(text string) error {
	r.given[r.setting] = config.Given{Texts: append(r.given[r.setting].Texts, text), From: "flag --" + r.flag}
	return nil
}

func (r *recorder) String() string { return r.shown }

func (r *recorder) Type() string { return r.kind }

// sources reads the configuration file and the environment, once. Their faults are returned with what could be read, so
// that all bad values are named at once.
func (c *command) sources() *sources {
	if c.read != nil {
		return c.read
	}
	c.read = &sources{}
	if path := cmp.Or(c.configFile, lookup(c.environ, config.EnvName("config"))); path != "" {
		c.read.file, c.read.fileErr = config.FromFile(path)
	}
	c.read.env, c.read.envErr = config.FromEnv(c.environ)
	return c.read
}

// load lays the layers of a new crawl: file, environment, flags.
func (c *command) load() (*config.Loaded, error) {
	s := c.sources()
	loaded, err := config.Load(c.base, s.file, s.env, c.given)
	return c.checked(loaded, s.fileErr, s.envErr, c.givenErr, err)
}

// loadOver lays flags over the stored settings of a crawl. It lays the file that --config names over them too, unless
// the machine joins a crawl of several. Other sources change only settings about this process.
func (c *command) loadOver(stored map[string][]string, joins bool) (*config.Loaded, error) {
	s := c.sources()
	process, over := []config.Layer{s.file, s.env}, []config.Layer{c.given}
	if c.configFile != "" && !joins {
		process, over = []config.Layer{s.env}, []config.Layer{s.file, c.given}
	}
	loaded, err := config.Resume(stored, process, over...)
	return c.checked(loaded, s.fileErr, s.envErr, c.givenErr, err)
}

// loadRun is loadOver for a run of the crawl. It refuses to go on without a secret that the crawl had.
func (c *command) loadRun(stored map[string][]string, joins bool) (*config.Loaded, error) {
	loaded, err := c.loadOver(stored, joins)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, name := range loaded.Missing {
		faults = append(faults, fmt.Errorf("the crawl was started with --%[1]s, whose value is not kept with a crawl: "+
			"give --%[1]s or the variable %[2]s again, or --%[1]s \"\" to go on without", name, config.EnvName(name)))
	}
	return c.checked(loaded, faults...)
}

// checked returns the settings if no error was met, else all errors as one mistake of the caller. Variables that may be
// misspelt settings give a warning.
func (c *command) checked(loaded *config.Loaded, errs ...error) (*config.Loaded, error) {
	if err := errors.Join(errs...); err != nil {
		return nil, usage("%w", err)
	}
	if unknown := config.UnknownEnv(c.environ); len(unknown) > 0 {
		loaded.Warnings = append(loaded.Warnings, "no such setting: ignored environment "+strings.Join(unknown,
			", ")+" ('mapwright crawl --help' lists the settings)")
	}
	return loaded, nil
}

// outside is what flags, environment or file say of a name that is not in the table of settings, such as the data
// directory.
func (c *command) outside(name string) []string {
	s := c.sources()
	for _, l := range []config.Layer{c.given, s.env, s.file} {
		if given, ok := l[name]; ok {
			return given.Texts
		}
	}
	return nil
}

// last is the last text that the environment or the file say of such a name, or "".
func (c *command) last(name string) string {
	texts := c.outside(name)
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// printConfig shows each effective value and where it came from, without secrets. In JSON the names are the keys of a
// configuration file.
func (c *command) printConfig(l *config.Loaded) error {
	for _, w := range l.Warnings {
		fmt.Fprintln(c.err, "mapwright: "+w)
	}
	all, out := map[string]any{}, &strings.Builder{}
	row := func(name, text string, value any) {
		from := l.Origin[name]
		all[config.FileKey(name)] = struct {
			Value  any    `json:"value"`
			Source string `json:"source"`
		}{value, from}
		fmt.Fprintf(out, "%-30s %-40s %s\n", name, cmp.Or(text, `""`), from)
	}
	row(config.ProfileName, string(l.Settings.Profile), l.Settings.Profile)
	for _, e := range l.Settings.Redacted().Table() {
		row(e.Name, e.Value.String(), e.Value.JSON())
	}
	if c.asJSON {
		enc := json.NewEncoder(c.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(all)
	}
	_, err := fmt.Fprint(c.out, out)
	return err
}
