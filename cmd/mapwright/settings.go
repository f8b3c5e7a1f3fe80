package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mapwright/mapwright/internal/config"
)

// settingFlags are the flags of every setting, and --profile, --safe and --config. They only remember what was given: the
// values are read, checked and laid over the other layers by config.Load.
type settingFlags struct {
	environ    []string
	given      config.Layer
	configFile string
}

// addSettings gives cmd a flag for each setting of the named groups, or of all.
func addSettings(cmd *cobra.Command, environ []string, groups ...config.Group) *settingFlags {
	f := &settingFlags{environ: environ, given: config.Layer{}}
	fs := cmd.Flags()
	fs.SortFlags = false
	profiles := []string{string(config.Polite), string(config.OwnSite), string(config.Safe)}
	fs.Var(&recorder{flags: f, setting: config.ProfileName, flag: "profile", shown: profiles[0], kind: "name"}, "profile", "how hard servers are asked: polite, own-site (yours: as hard as it copes with) or safe (at most 50 pages and 60 s)")
	complete(cmd, "profile", profiles)
	fs.VarPF(&recorder{flags: f, setting: config.ProfileName, flag: "safe", kind: "bool"}, "safe", "", "short for --profile safe").NoOptDefVal = "true"
	fs.StringVar(&f.configFile, "config", "", "YAML `file` with settings")
	for _, e := range config.Defaults(config.Polite).Table() {
		if len(groups) > 0 && !contains(groups, e.Group) {
			continue
		}
		for i, name := range append([]string{e.Name}, e.Flags...) {
			flag := fs.VarPF(&recorder{flags: f, setting: e.Name, flag: name, shown: shown(e), kind: e.Value.Type()}, name, "", e.Usage)
			if flag.Value.Type() == "bool" {
				flag.NoOptDefVal = "true"
			}
			flag.Hidden = i > 0
			flag.Annotations = map[string][]string{groupOfFlag: {string(e.Group)}}
			if c, ok := e.Value.(interface{ Choices() []string }); ok {
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

func contains(groups []config.Group, g config.Group) bool {
	for _, have := range groups {
		if have == g {
			return true
		}
	}
	return false
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
	if r.flag == "safe" {
		switch text {
		case "true":
			text = string(config.Safe)
		case "false":
			return nil // as if it were not there
		default:
			return fmt.Errorf("%q is neither true nor false", text)
		}
	}
	given := r.flags.given[r.setting]
	given.Texts = append(given.Texts, text)
	given.From = "flag --" + r.flag
	r.flags.given[r.setting] = given
	return nil
}

func (r *recorder) String() string { return r.shown }

func (r *recorder) Type() string { return r.kind }

// layers reads the file and the environment. What is wrong with them comes with what could be read, so that all bad values are
// named at once.
func (f *settingFlags) layers() (file, env config.Layer, err error) {
	var errs []error
	path := f.configFile
	if path == "" {
		path = lookup(f.environ, config.EnvName("config"))
	}
	if path != "" {
		file, err = config.FromFile(path)
		errs = append(errs, err)
	}
	env, err = config.FromEnv(f.environ)
	return file, env, errors.Join(append(errs, err)...)
}

// load lays the layers of a new crawl: file, environment, flags.
func (f *settingFlags) load() (*config.Loaded, error) {
	file, env, err := f.layers()
	return lay(err, file, env, f.given)
}

// loadOver lays them over the settings of a crawl that is there. It keeps its settings, whatever the environment says by now; what is given
// with the command counts, a file that it names too.
func (f *settingFlags) loadOver(stored map[string][]string) (*config.Loaded, error) {
	file, env, err := f.layers()
	kept, warning := f.keep(stored)
	named := config.Layer{}
	if f.configFile != "" {
		file, named = nil, file
	}
	loaded, err := lay(err, file, env, config.FromStored(kept), named, f.given)
	if loaded != nil && warning != "" {
		loaded.Warnings = append(loaded.Warnings, warning)
	}
	return loaded, err
}

// keep chooses what of a crawl's settings still counts when another profile is given: not what the old profile brought with it. A safe crawl
// stays safe.
func (f *settingFlags) keep(stored map[string][]string) (kept map[string][]string, warning string) {
	given, ok := f.given[config.ProfileName]
	had := stored[config.ProfileName]
	if !ok || len(had) == 0 || given.Texts[len(given.Texts)-1] == had[0] {
		return stored, ""
	}
	if had[0] == string(config.Safe) {
		delete(f.given, config.ProfileName)
		return stored, fmt.Sprintf("a safe crawl stays safe: %s is not heeded", given.From)
	}
	kept = map[string][]string{}
	usual := config.Defaults(config.Profile(had[0])).Stored()
	for name, texts := range stored {
		if strings.Join(texts, "\n") != strings.Join(usual[name], "\n") {
			kept[name] = texts
		}
	}
	return kept, ""
}

// lay loads the layers, and adds what was wrong with reading them to what is wrong with the values.
func lay(read error, layers ...config.Layer) (*config.Loaded, error) {
	loaded, err := config.Load(layers...)
	if err := errors.Join(read, err); err != nil {
		return nil, usage("%w", err)
	}
	return loaded, nil
}

// outside is what flags, environment or file say of a name that is no setting of the table, such as the data directory.
func (f *settingFlags) outside(name string) []string {
	file, env, err := f.layers()
	if err != nil {
		return nil // named when the settings are loaded
	}
	for _, l := range []config.Layer{f.given, env, file} {
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

// printConfig shows each effective value, and where it came from.
func printConfig(io stdio, l *config.Loaded) error {
	out := &strings.Builder{}
	row := func(name, value string) {
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(out, "%-30s %-40s %s\n", name, value, l.Origin[name])
	}
	row(config.ProfileName, string(l.Settings.Profile))
	for _, e := range l.Settings.Table() {
		row(e.Name, e.Value.String())
	}
	for _, w := range l.Warnings {
		fmt.Fprintln(io.err, "mapwright: "+w)
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}
