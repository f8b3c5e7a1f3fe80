package config

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnvPrefix stands before every environment name that is surely meant for this program.
const EnvPrefix = "MAPWRIGHT_"

// EnvName is a setting's own environment name.
func EnvName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// FileKey is a setting's key in a configuration file.
func FileKey(setting string) string { return strings.ReplaceAll(setting, "-", "_") }

// FromEnv reads the environment, given as os.Environ gives it. A prefixed name wins over a bare one.
func FromEnv(environ []string) (Layer, error) {
	env := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	layer := Layer{}
	take := func(setting, name string) bool {
		text, ok := env[name]
		if !ok || text == "" {
			return false
		}
		layer[setting] = Given{Texts: []string{text}, From: "environment " + name}
		return true
	}
	for _, name := range Outside() {
		take(name, EnvName(name))
	}
	var bad error
	for _, e := range new(Settings).Table() {
		found := false
		for _, name := range append([]string{EnvName(e.Name)}, e.Env...) {
			if found = take(e.Name, name); found {
				break
			}
		}
		if minutes := env[e.EnvMinutes]; !found && e.EnvMinutes != "" && minutes != "" {
			m, err := strconv.ParseFloat(minutes, 64)
			if err != nil || m < 0 {
				bad = fmt.Errorf("environment %s: %q is not a number of minutes", e.EnvMinutes, minutes)
				continue
			}
			layer[e.Name] = Given{Texts: []string{strconv.FormatFloat(m*60, 'f', -1, 64)}, From: "environment " + e.EnvMinutes}
		}
	}
	return layer, bad
}

// FromFile reads a YAML file of settings. Keys that are no setting are refused, all at once.
func FromFile(path string) (Layer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var raw map[string]any
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	names := map[string]string{}
	for _, name := range Outside() {
		names[FileKey(name)] = name
	}
	for _, e := range new(Settings).Table() {
		names[FileKey(e.Name)] = e.Name
	}
	layer := Layer{}
	var unknown []string
	for key, value := range raw {
		name, ok := names[key]
		if !ok {
			unknown = append(unknown, strconv.Quote(key))
			continue
		}
		layer[name] = Given{Texts: texts(value), From: "file " + path + " " + key}
	}
	if len(unknown) > 0 {
		sort.Strings(unknown)
		return nil, fmt.Errorf("configuration %s: no such setting: %s", path, strings.Join(unknown, ", "))
	}
	return layer, nil
}

// texts turns a YAML scalar or list into the texts that a Value takes.
func texts(v any) []string {
	switch v := v.(type) {
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, texts(item)...)
		}
		return out
	case nil:
		return []string{""}
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}
	default:
		return []string{fmt.Sprint(v)}
	}
}

// Stored is the form in which a crawl keeps its settings: every setting's texts by name, and the profile.
func (s *Settings) Stored() map[string][]string {
	out := map[string][]string{ProfileName: {string(s.Profile)}}
	for _, e := range s.Table() {
		if e.PerRun {
			continue
		}
		out[e.Name] = []string{e.Value.String()}
		if list, ok := e.Value.(listValue); ok {
			out[e.Name] = slices.Clone(*list.p)
		}
	}
	return out
}

// FromStored is the layer that a resumed crawl's settings make.
func FromStored(stored map[string][]string) Layer {
	layer := Layer{}
	for name, texts := range stored {
		layer[name] = Given{Texts: texts, From: "crawl"}
	}
	return layer
}
