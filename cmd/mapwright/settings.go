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

// settingFlags are the flags of every setting, and --profile, --safe and --config. They only remember what was given:
// the values are read, checked and laid over the other layers by config.Load.
type settingFlags struct {
	environ    []string
	base       config.Layer // the command's own defaults, below every other layer
	given      config.Layer
	configFile string
	read       *sources // set by the first call of sources
}

// sources are the layers that are not flags, and the faults met while reading them.
type sources struct {
	file, env       config.Layer
	fileErr, envErr error
}

// addSettings gives cmd a flag for each setting of the named groups, or of all.
func addSettings(cmd *cobra.Command, environ []string, groups ...config.Group) *settingFlags {
	f := &settingFlags{environ: environ, given: config.Layer{}}
	fs := cmd.Flags()
	fs.SortFlags = false
	profiles := config.Profiles()
	fs.Var(&recorder{flags: f, setting: config.ProfileName, flag: "profile", shown: profiles[0], kind: "name"},
		"profile",
		"how hard servers are asked: polite, own-site (yours: as hard as it copes with) or safe (at most 50 pages "+
			"and 60 s)")
	complete(cmd, "profile", profiles)
	fs.VarPF(&recorder{flags: f, setting: config.SafeName, flag: "safe", kind: "bool"}, "safe", "",
		"short for --profile safe").NoOptDefVal = "true"
	fs.StringVar(&f.configFile, "config", "", "YAML `file` with settings")
	for _, e := range config.Defaults(config.Polite).Table() {
		if len(groups) > 0 && !slices.Contains(groups, e.Group) {
			continue
		}
		for i, name := range append([]string{e.Name}, e.Flags...) {
			flag := fs.VarPF(&recorder{flags: f, setting: e.Name, flag: name, shown: shown(e), kind: e.Value.Type()},
				name, "", e.Usage)
			if flag.Value.Type() == "bool" {
				flag.NoOptDefVal = "true"
			}
			flag.Hidden = i > 0
			flag.Annotations = map[string][]string{groupOfFlag: {string(e.Group)}}
			if c, ok := e.Value.(interface{ Choices() []string }); ok && c.Choices() != nil {
				complete(cmd, name, c.Choices())
			}
		}
	}
	cmd.SetUsageFunc(usageByGroup)
	return f
}

// shown is a default as help shows it: nothing where there is nothing to say.
func shown(e config.Entry) string {
	if v := e.Value.String(); v != "0s" {
		return v
	}
	return ""
}

// recorder is a flag that writes down what it was given.
type recorder struct {
	flags   *settingFlags
	setting string
	flag    string
	shown   string // the default, for help
	kind    string // for help
}

var _ pflag.Value = (*recorder)(nil)

func (r *recorder) Set(text string) error {
	given := r.flags.given[r.setting]
	given.Texts = append(given.Texts, text)
	given.From = "flag --" + r.flag
	r.flags.given[r.setting] = given
	return nil
}

func (r *recorder) String() string { return r.shown }

func (r *recorder) Type() string { return r.kind }

// sources reads the configuration file and the environment, once. Their faults are returned with what could be read, so
// that all bad values are named at once.
func (f *settingFlags) sources() *sources {
	if f.read != nil {
		return f.read
	}
	f.read = &sources{}
	if path := cmp.Or(f.configFile, lookup(f.environ, config.EnvName("config"))); path != "" {
		f.read.file, f.read.fileErr = config.FromFile(path)
	}
	f.read.env, f.read.envErr = config.FromEnv(f.environ)
	return f.read
}

// load lays the layers of a new crawl: file, environment, flags.
func (f *settingFlags) load() (*config.Loaded, error) {
	s := f.sources()
	loaded, err := config.Load(f.base, s.file, s.env, f.given)
	return f.checked(loaded, s.fileErr, s.envErr, err)
}

// loadOver lays them over the settings of a crawl that exists. The crawl keeps its settings, whatever the environment
// says now; what is given with the command counts, including a file that --config names.
func (f *settingFlags) loadOver(stored map[string][]string) (*config.Loaded, error) {
	s := f.sources()
	process, over := []config.Layer{s.file, s.env}, []config.Layer{f.given}
	if f.configFile != "" {
		process, over = []config.Layer{s.env}, []config.Layer{s.file, f.given}
	}
	loaded, err := config.Resume(stored, process, over...)
	return f.checked(loaded, s.fileErr, s.envErr, err)
}

// checked returns the settings if no error was met, else all errors as one mistake of the caller. Variables that may be
// misspelt settings give a warning.
func (f *settingFlags) checked(loaded *config.Loaded, errs ...error) (*config.Loaded, error) {
	if err := errors.Join(errs...); err != nil {
		return nil, usage("%w", err)
	}
	if unknown := config.UnknownEnv(f.environ); len(unknown) > 0 {
		loaded.Warnings = append(loaded.Warnings, "no such setting: ignored environment "+strings.Join(unknown,
			", ")+" ('mapwright crawl --help' lists the settings)")
	}
	return loaded, nil
}

// outside is what flags, environment or file say of a name that is not in the table of settings, such as the data
// directory.
func (f *settingFlags) outside(name string) []string {
	s := f.sources()
	for _, l := range []config.Layer{f.given, s.env, s.file} {
		if given, ok := l[name]; ok {
			return given.Texts
		}
	}
	return nil
}

func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// shownSetting is one setting in the output of --print-config --json.
type shownSetting struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// printConfig shows each effective value and where it came from, without secrets. In JSON the names are the keys of a
// configuration file.
func printConfig(io stdio, l *config.Loaded, asJSON bool) error {
	for _, w := range l.Warnings {
		fmt.Fprintln(io.err, "mapwright: "+w)
	}
	table := l.Settings.Redacted().Table()
	if asJSON {
		all := map[string]shownSetting{config.ProfileName: {l.Settings.Profile, l.Origin[config.ProfileName]}}
		for _, e := range table {
			all[config.FileKey(e.Name)] = shownSetting{e.Value.JSON(), l.Origin[e.Name]}
		}
		enc := json.NewEncoder(io.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(all)
	}
	out := &strings.Builder{}
	row := func(name, value string) {
		fmt.Fprintf(out, "%-30s %-40s %s\n", name, cmp.Or(value, `""`), l.Origin[name])
	}
	row(config.ProfileName, string(l.Settings.Profile))
	for _, e := range table {
		row(e.Name, e.Value.String())
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}
