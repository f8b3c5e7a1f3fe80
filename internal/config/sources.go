package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// EnvPrefix is the prefix of environment names that belong to this program only.
const EnvPrefix = "MAPWRIGHT_"

// fromEnv begins the From of a value that the environment gives.
const fromEnv = "environment "

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
		layer[setting] = Given{Texts: []string{text}, From: fromEnv + name}
		return true
	}
	for _, name := range otherNames() {
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
			layer[e.Name] = Given{Texts: []string{strconv.FormatFloat(m*60, 'f', -1, 64)}, From: fromEnv +
				e.EnvMinutes}
		}
	}
	layer, err := layer.SpellOut()
	return layer, errors.Join(bad, err)
}

// UnknownEnv lists the variables with the prefix of this program that name no setting, in order.
func UnknownEnv(environ []string) []string {
	known := map[string]bool{EnvName("config"): true}
	for _, name := range otherNames() {
		known[EnvName(name)] = true
	}
	for _, e := range new(Settings).Table() {
		known[EnvName(e.Name)] = true
	}
	var unknown []string
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, EnvPrefix) && value != "" && !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// FromFile reads a YAML file of settings. A key may be written with underscores or, as a flag is, with dashes. The
// error names every fault of the file, with its line; what could be read is returned with it, so that its values can be
// checked too.
func FromFile(path string) (Layer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var doc, next yaml.Node
	reader := yaml.NewDecoder(bytes.NewReader(text))
	if err := reader.Decode(&doc); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	if err := reader.Decode(&next); err == nil {
		return nil, fmt.Errorf("read configuration %s: line %d: a second document begins; a file holds the settings "+
			"in one", path, next.Line)
	} else if err != io.EOF {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read configuration %s: line %d: it must hold lines such as 'max_urls: 100'", path,
			root.Line)
	}
	names := map[string]string{}                 // settings by key
	lists := map[string]bool{StartURLName: true} // settings that take several values
	for _, name := range otherNames() {
		names[FileKey(name)] = name
	}
	for _, e := range new(Settings).Table() {
		names[FileKey(e.Name)] = e.Name
		_, lists[e.Name] = e.Value.(listValue)
	}
	layer, unknown, errs := Layer{}, []string(nil), []error(nil)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, items, isList := root.Content[i], []*yaml.Node{root.Content[i+1]}, false
		if list := resolved(items[0]); list.Kind == yaml.SequenceNode {
			items, isList = list.Content, true
		}
		name, known := names[FileKey(key.Value)]
		_, twice := layer[name]
		texts, ok := textsOf(items, yamlText)
		fault := ""
		switch {
		case !known:
			unknown = append(unknown, strconv.Quote(key.Value))
		case twice:
			fault = "is given twice"
		case !ok:
			fault = "must be a value or a list of values"
		case isList && !lists[name]:
			fault = "takes one value, not a list"
		default:
			layer[name] = Given{Texts: texts, From: "file " + path + " " + key.Value}
		}
		if fault != "" {
			errs = append(errs, fmt.Errorf("file %s line %d: %s %s", path, key.Line, key.Value, fault))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		errs = append(errs, fmt.Errorf("configuration %s: no such setting: %s", path, strings.Join(unknown, ", ")))
	}
	layer, err = layer.SpellOut()
	return layer, errors.Join(append(errs, err)...)
}

// textsOf are the texts that a Value takes. An empty list is an empty text. It reports false if an item has no text.
func textsOf[T any](items []T, textOf func(T) (string, bool)) ([]string, bool) {
	if len(items) == 0 {
		return []string{""}, true
	}
	texts := make([]string, len(items))
	for i, item := range items {
		var ok bool
		if texts[i], ok = textOf(item); !ok {
			return nil, false
		}
	}
	return texts, true
}

// yamlText is a YAML scalar as it is written in the file. An empty value is an empty text.
func yamlText(n *yaml.Node) (string, bool) {
	n = resolved(n)
	if n.Tag == "!!null" {
		return "", true
	}
	return n.Value, n.Kind == yaml.ScalarNode
}

// resolved is the node that an alias stands for, or the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Stored is the form in which a crawl keeps its settings: every setting's texts by name, and the profile. Secrets of
// Local settings are hidden: see Loaded.Missing. A safe crawl keeps max-urls as it was requested, because the message
// at its cap names that number.
func (s *Settings) Stored() map[string][]string {
	out := s.StoredWithSecrets()
	for _, e := range s.Table() {
		if e.Local && e.Hide != nil {
			out[e.Name] = hideAll(out[e.Name], e.Hide)
		}
	}
	return out
}

func hideAll(texts []string, hide func(string) string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = hide(texts[i])
	}
	return texts
}

// StoredWithSecrets is like Stored, with all secrets. A service keeps them in its own database, since it cannot ask for
// them again.
func (s *Settings) StoredWithSecrets() map[string][]string {
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
	if s.Profile == Safe {
		out["max-urls"] = []string{strconv.Itoa(s.RequestedURLs)}
	}
	return out
}

// FromStored makes a layer of the settings that are stored with a crawl. Those whose secrets are hidden are left out.
func FromStored(stored map[string][]string) Layer {
	layer := Layer{}
	hidden := hiddenIn(stored)
	for name, texts := range stored {
		if slices.Contains(hidden, name) {
			continue
		}
		if name == "user-agent" && strings.TrimSpace(strings.Join(texts, "")) == "" {
			continue // accepted by versions before 0.1, which sent the default then
		}
		layer[name] = Given{Texts: texts, From: originCrawl}
	}
	for _, e := range new(Settings).Table() {
		if _, ok := stored[e.Name]; e.Fixed && !ok {
			// A version without the setting began the crawl: its value is none, whatever the default is now.
			layer[e.Name] = Given{Texts: []string{""}, From: originCrawl}
		}
	}
	return layer
}

// hiddenIn are the names of the stored settings whose secrets are hidden.
func hiddenIn(stored map[string][]string) (names []string) {
	for _, e := range new(Settings).Table() {
		if e.Local && e.Hide != nil && slices.ContainsFunc(stored[e.Name], isHidden) {
			names = append(names, e.Name)
		}
	}
	return names
}

func isHidden(text string) bool { return strings.Contains(text, HiddenValue) }

// HiddenValue stands for a secret: the value of a header, a password.
const HiddenValue = "(hidden)"

// PrivateHeaders are the names of the request headers that may be credentials.
func (s *Settings) PrivateHeaders() (names []string) {
	for _, h := range s.Headers {
		if name, _, _ := strings.Cut(h, ":"); !fetch.IsPublicHeader(strings.TrimSpace(name)) {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// hideHeader is a header without its value.
func hideHeader(text string) string {
	name, _, _ := strings.Cut(text, ":")
	return name + ": " + HiddenValue
}

// hideUser is a user of an origin without name and password. A file is named as it is.
func hideUser(text string) string {
	if strings.HasPrefix(text, "@") {
		return text
	}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return HiddenValue + text[at:]
	}
	return HiddenValue
}

// hideCookies is a list of cookies without their values. A file is named as it is.
func hideCookies(text string) string {
	if strings.HasPrefix(text, "@") {
		return text
	}
	var names []string
	for pair := range strings.SplitSeq(text, ";") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		names = append(names, name+"="+HiddenValue)
	}
	return strings.Join(names, "; ")
}

// hide is what removes secrets from the texts of a setting; nil if there is nothing to remove.
func (e *Entry) hide() func(string) string {
	if v, ok := e.Value.(stringValue); ok && v.form == formURL {
		return weburl.HideUserinfo
	}
	return e.Hide
}

// Redacted is a copy to show to users: without the values of request headers, without credentials, and without the user
// names and passwords in URLs.
func (s *Settings) Redacted() *Settings {
	out := *s
	for _, e := range out.Table() {
		hide := e.hide()
		switch v := e.Value.(type) {
		case stringValue:
			if hide != nil {
				*v.p = hide(*v.p)
			}
		case listValue:
			if hide != nil {
				*v.p = hideAll(*v.p, hide)
			}
		}
	}
	return &out
}

// Shown returns the limits of a crawl, and the settings that differ from the defaults of its profile, without secrets.
// The names are those of a configuration file. If given is not nil, it names the settings that the user of a service
// gave. Of the others only limits are shown, without those of the operator.
func (s *Settings) Shown(given map[string]bool) map[string]any {
	shown := map[string]any{}
	usual := Defaults(s.Profile).Table()
	for i, e := range s.Redacted().Table() {
		key := FileKey(e.Name)
		limit := e.Group == Limits && (given == nil || e.Permission != Operator)
		if limit || !e.PerRun && (given == nil || given[key]) && e.Value.String() != usual[i].Value.String() {
			shown[key] = e.Value.JSON()
		}
	}
	return shown
}
