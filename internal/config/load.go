package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/parser"
)

// Given holds what one layer says of one setting, and how messages name the source.
type Given struct {
	Texts []string
	From  string // such as "flag --max-workers", "environment MAX_WORKERS", "file crawl.yaml max_workers"
}

// Layer is one source of settings, by setting name.
type Layer map[string]Given

// Loaded are the effective settings and where each came from.
type Loaded struct {
	Settings *Settings
	Origin   map[string]string // by setting name: "default", "profile own-site", or a Given's From
	Warnings []string          // what was clamped or ignored, and why
	// Missing are the settings whose secrets are not stored with the crawl, and that were not given again.
	Missing []string
}

// Names that are not in the table. The profile decides with which values the table starts, and safe selects a profile.
// The others say what a crawl is and where it is kept rather than how it runs. All have the same three forms.
const (
	ProfileName  = "profile"
	SafeName     = "safe"
	StartURLName = "start-url"
	DataDirName  = "data-dir"
	ClusterName  = "cluster"
	RedisURLName = "redis-url" // another name of ClusterName
	ReplicasName = "redis-wait-replicas"
	CrawlName    = "name"
)

// otherNames are the names that files and the environment may give beside those of the table.
func otherNames() []string {
	names := []string{ProfileName, SafeName, StartURLName, DataDirName, ClusterName, RedisURLName, ReplicasName,
		CrawlName}
	for _, short := range Shorts() {
		names = append(names, short.Name)
	}
	return slices.AppendSeq(names, maps.Keys(removed()))
}

// Origins that are not a Given's From.
const (
	originDefault = "default"
	originCrawl   = "crawl" // the settings stored with a crawl
)

func originOf(p Profile) string { return "profile " + string(p) }

// Load lays the layers over the defaults of the profile that they choose, the lowest layer first. The error names every
// bad value.
func Load(layers ...Layer) (*Loaded, error) {
	profile, from, warnings, errs := chooseProfile(layers)
	out := &Loaded{Settings: Defaults(profile), Origin: map[string]string{ProfileName: from}, Warnings: warnings}
	plain := Defaults(Polite).Table()
	bad := map[string]bool{}
	for i, e := range out.Settings.Table() {
		out.Origin[e.Name] = originDefault
		if e.Value.String() != plain[i].Value.String() {
			out.Origin[e.Name] = originOf(profile)
		}
		var faults []error
		for _, l := range layers {
			given, ok := l[e.Name]
			if !ok {
				continue
			}
			if len(faults) > 0 && out.Origin[e.Name] == originCrawl {
				faults = nil // a higher layer may replace a stored value that is older than its bound
			}
			out.Origin[e.Name] = given.From
			for _, err := range leaves(setAll(e.Value, given.Texts)) {
				faults = append(faults, &settingError{e.Name, given.From, err})
			}
		}
		bad[e.Name] = len(faults) > 0
		errs = append(errs, faults...)
	}
	out.clampSafe()
	out.Warnings = append(out.Warnings, removedIn(layers)...)
	errs = append(errs, out.Settings.contradictions(bad)...)
	if from := out.Origin["insecure"]; out.Settings.Insecure && profile != OwnSite && strings.HasPrefix(from, fromEnv) {
		errs = append(errs, &settingError{"insecure", from, errors.New("a variable counts in the profile own-site " +
			"only, because it is easily forgotten: give --insecure")})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// Resume lays layers over the settings that are stored with a crawl. In the process layers (environment, and a file
// that the environment names) only settings about this process or machine count, such as log-level. The others are
// ignored, and a warning names them unless the crawl has the same value. The layers over are given with the command and
// count fully.
func Resume(stored map[string][]string, process []Layer, over ...Layer) (*Loaded, error) {
	above := append([]Layer{FromStored(stored)}, over...)
	profile, _, _, _ := chooseProfile(above) // faults are reported by Load
	if requested, from, _, _ := chooseProfile(process); requested == Safe && profile != Safe {
		return nil, fmt.Errorf("%s requests the safe profile, but this crawl was started with %s: add --safe to make "+
			"it a safe crawl for good "+
			"(at most %d pages in all), or unset it", from, profile, SafePages)
	}
	layers := []Layer{keptSettings(stored, profile)}
	for _, l := range process {
		layers = append(layers, l.only(func(e Entry) bool { return e.PerRun || e.Local }))
	}
	layers = append(layers, over...)
	loaded, err := Load(layers...)
	if err != nil {
		return nil, err
	}
	for _, name := range hiddenIn(stored) {
		if !slices.ContainsFunc(layers[1:], func(l Layer) bool { _, ok := l[name]; return ok }) {
			loaded.Missing = append(loaded.Missing, name)
		}
	}
	if err := loaded.checkFixed(stored); err != nil {
		return nil, err
	}
	loaded.Warnings = append(loaded.Warnings, removedIn(process)...)
	if ignored := loaded.ignored(process); len(ignored) > 0 {
		loaded.Warnings = append(loaded.Warnings,
			fmt.Sprintf("the crawl keeps its settings: ignored %s; flags given to resume change them",
				strings.Join(ignored, ", ")))
	}
	return loaded, nil
}

// checkFixed refuses other values of settings that a crawl keeps as long as it exists.
func (l *Loaded) checkFixed(stored map[string][]string) error {
	var errs []error
	layer := FromStored(stored)
	begun := new(Settings).Table()
	for i, e := range l.Settings.Table() {
		if !e.Fixed {
			continue
		}
		if err := setAll(begun[i].Value, layer[e.Name].Texts); err != nil {
			return &settingError{e.Name, originCrawl, err}
		}
		if had := begun[i].Value.String(); had != e.Value.String() {
			was := fmt.Sprintf("with %q", had)
			if had == "" {
				was = "without any"
			}
			errs = append(errs, &settingError{e.Name, l.Origin[e.Name], fmt.Errorf("the crawl was begun %s, and keeps "+
				"that, because it decides which URLs are the same: leave the setting out, or begin a new crawl in "+
				"another "+
				"--data-dir", was)})
		}
	}
	return errors.Join(errs...)
}

// Params are the query parameters that are no part of a URL's identity. The names were checked by Load.
func (s *Settings) Params() *weburl.Params {
	params, err := weburl.NewParams(s.IgnoreParams, s.OnlyParams)
	if err != nil {
		panic(err)
	}
	return params
}

// keptSettings returns the stored settings of a crawl that still count under the given profile. If the crawl had
// another profile, the values that are defaults of that profile do not count.
func keptSettings(stored map[string][]string, profile Profile) Layer {
	layer := FromStored(stored)
	had := stored[ProfileName]
	if len(had) == 0 || had[0] == string(profile) {
		return layer
	}
	usual := Defaults(Profile(had[0])).Stored()
	for _, e := range new(Settings).Table() {
		if texts, ok := stored[e.Name]; ok && !e.Fixed && slices.Equal(texts, usual[e.Name]) {
			delete(layer, e.Name)
		}
	}
	delete(layer, ProfileName)
	return layer
}

// only returns the settings of a layer for which chosen is true.
func (l Layer) only(chosen func(Entry) bool) Layer {
	out := Layer{}
	for _, e := range new(Settings).Table() {
		if given, ok := l[e.Name]; ok && chosen(e) {
			out[e.Name] = given
		}
	}
	return out
}

// ignored returns the sources in process layers that give a setting of the crawl a value other than the effective one.
// It does not return the values, because they can be secrets.
func (l *Loaded) ignored(process []Layer) []string {
	effective := l.Settings.Table()
	scratch := Defaults(l.Settings.Profile).Table()
	var out []string
	for _, layer := range process {
		if given, ok := layer[ProfileName]; ok && given.Texts[len(given.Texts)-1] != string(l.Settings.Profile) {
			out = append(out, given.From)
		}
		for i, e := range scratch {
			given, ok := layer[e.Name]
			if !ok || e.PerRun || e.Local {
				continue
			}
			if err := setAll(e.Value, given.Texts); err != nil || e.Value.String() != effective[i].Value.String() {
				out = append(out, given.From)
			}
		}
	}
	return out
}

// setAll gives v the texts of one layer, which replace what lower layers said.
func setAll(v Value, texts []string) error {
	if list, ok := v.(listValue); ok {
		return list.take(nil, texts)
	}
	var errs []error
	for _, text := range texts {
		errs = append(errs, v.Set(text))
	}
	return errors.Join(errs...)
}

// settingError is a fault of one setting.
type settingError struct {
	setting string
	from    string // a Given's From; empty if no single layer is at fault
	err     error
}

func (e *settingError) Error() string {
	switch e.from {
	case "":
		return e.err.Error()
	case originCrawl:
		return fmt.Sprintf("the crawl's %s: %s; it needs another value", e.setting, e.err)
	}
	return e.from + ": " + e.err.Error()
}

func (e *settingError) Unwrap() error { return e.err }

// EachFault calls report for each fault that Load has found. The setting is empty if the fault concerns several.
func EachFault(err error, report func(setting string, err error)) {
	for _, err := range leaves(err) {
		if of, ok := errors.AsType[*settingError](err); ok {
			report(of.setting, of.err)
		} else {
			report("", err)
		}
	}
}

// leaves are the errors that were joined into err; none if it is nil.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, leaves(e)...)
	}
	return out
}

// contradictions returns the faults of values that are each valid alone. It does not compare settings that have a bad
// value.
func (s *Settings) contradictions(bad map[string]bool) (errs []error) {
	fault := func(setting, format string, args ...any) {
		errs = append(errs, &settingError{setting: setting, err: fmt.Errorf(format, args...)})
	}
	if s.MinDelayMS > s.MaxDelayMS && !bad["min-delay-ms"] && !bad["max-delay-ms"] {
		fault("min-delay-ms", "min-delay-ms (%d) is larger than max-delay-ms (%d)", s.MinDelayMS, s.MaxDelayMS)
	}
	if s.UnthrottleThresholdMS > s.ThrottleThresholdMS && !bad["unthrottle-threshold-ms"] &&
		!bad["throttle-threshold-ms"] {
		fault("unthrottle-threshold-ms", "unthrottle-threshold-ms (%d) is larger than throttle-threshold-ms (%d)",
			s.UnthrottleThresholdMS, s.ThrottleThresholdMS)
	}
	if len(s.SeedingStrategy) > 1 && slices.Contains(s.SeedingStrategy, "none") && !bad["seeding-strategy"] {
		fault("seeding-strategy", "seeding-strategy is %s: none does not go with others",
			strings.Join(s.SeedingStrategy, ","))
	}
	if strings.TrimSpace(s.UserAgent) == "" && !bad["user-agent"] {
		fault("user-agent", "user-agent is blank: servers need a name to ask for less; leave it out for the default")
	}
	if !bad["header"] && (len(s.Cookie) > 0 || s.CookieFile != "" || s.Cookies || s.Login != "") &&
		slices.ContainsFunc(s.PrivateHeaders(),
			func(name string) bool { return strings.EqualFold(name, "Cookie") }) {
		fault("cookie", "the header Cookie does not go with cookie, cookie-file, cookies or login: give its cookies "+
			"with cookie")
	}
	if (s.Login == "") != (s.LoginData == "") && !bad["login"] && !bad["login-data"] {
		fault("login", "login and login-data go together: the page with the form, and the file with its fields")
	}
	if !bad["include"] && !bad["exclude"] {
		if _, _, err := CompilePatterns(s.Include, s.Exclude); err != nil {
			fault("exclude", "the regular expressions of include and exclude %w", err)
		}
	}
	if !bad["exclude-from-sitemap"] && !bad["changefreq"] && !bad["priority"] {
		if _, _, err := CompilePatterns(s.ExcludeFromSitemap, expressionsOf(s.Changefreq, s.Priority)); err != nil {
			fault("exclude-from-sitemap", "the regular expressions of exclude-from-sitemap, changefreq and priority %w",
				err)
		}
	}
	if len(s.Extract) > 0 && !bad["extract"] {
		var o parser.Options
		for _, text := range s.Extract {
			x, _ := parser.ParseExtractor(text) // it was read before
			o.Extract = append(o.Extract, x)
		}
		if err := o.Validate(); err != nil {
			fault("extract", "extract: %w", err)
		}
	}
	return errs
}
