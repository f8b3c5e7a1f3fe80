package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mapwright/mapwright/internal/config"
)

// settingFlags are the flags of every setting, and --profile, --safe and --config. They only remember what was given: the
// values are read, checked and laid over the other layers by config.Load.
type settingFlags struct {
	given      config.Layer
	configFile string
}

// addSettings gives cmd a flag for each setting of the named groups, or of all.
func addSettings(cmd *cobra.Command, groups ...config.Group) *settingFlags {
	f := &settingFlags{given: config.Layer{}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Var(&recorder{f, config.ProfileName, "profile", ""}, "profile", "polite, own-site or safe")
	fs.StringVar(&f.configFile, "config", "", "YAML `file` with settings")
	safe := fs.VarPF(&recorder{f, config.ProfileName, "safe", string(config.Safe)}, "safe", "", "short for --profile safe")
	safe.NoOptDefVal = string(config.Safe)
	for _, e := range config.Defaults(config.Polite).Table() {
		if len(groups) > 0 && !contains(groups, e.Group) {
			continue
		}
		for i, name := range append([]string{e.Name}, e.Flags...) {
			flag := fs.VarPF(&recorder{flags: f, setting: e.Name, flag: name, shown: e.Value.String()}, name, "", e.Usage)
			if v := e.Value.String(); v == "true" || v == "false" {
				flag.NoOptDefVal = "true"
			}
			flag.Hidden = i > 0
		}
	}
	return f
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
}

var _ pflag.Value = (*recorder)(nil)

func (r *recorder) Set(text string) error {
	if r.flag == "safe" {
		if text != "true" && text != string(config.Safe) {
			return nil // --safe=false is as if it were not there
		}
		text = string(config.Safe)
	}
	given := r.flags.given[r.setting]
	given.Texts = append(given.Texts, text)
	given.From = "flag --" + r.flag
	r.flags.given[r.setting] = given
	return nil
}

func (r *recorder) String() string { return r.shown }

func (r *recorder) Type() string { return "value" }

// load lays the layers: file, environment, a stored crawl's settings if there are any, flags.
func (f *settingFlags) load(environ []string, stored map[string][]string) (*config.Loaded, error) {
	var layers []config.Layer
	path := f.configFile
	if path == "" {
		path = lookup(environ, config.EnvName("config"))
	}
	if path != "" {
		file, err := config.FromFile(path)
		if err != nil {
			return nil, usage("%w", err)
		}
		layers = append(layers, file)
	}
	env, err := config.FromEnv(environ)
	if err != nil {
		return nil, usage("%w", err)
	}
	layers = append(layers, env)
	if stored != nil {
		layers = append(layers, config.FromStored(stored))
	}
	loaded, err := config.Load(append(layers, f.given)...)
	if err != nil {
		return nil, usage("%w", err)
	}
	return loaded, nil
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
	fmt.Fprintf(out, "%-30s %-40s %s\n", config.ProfileName, l.Settings.Profile, l.Origin[config.ProfileName])
	for _, e := range l.Settings.Table() {
		value := e.Value.String()
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(out, "%-30s %-40s %s\n", e.Name, value, l.Origin[e.Name])
	}
	_, err := fmt.Fprint(io.out, out)
	return err
}

// isFile says whether a start URL argument is rather the name of a file that holds some.
func isFile(arg string) bool {
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}
