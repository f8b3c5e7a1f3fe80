package config

import (
	"errors"
	"fmt"
	"slices"
)

// Given is what one layer says of one setting, and the words by which it is named in messages.
type Given struct {
	Texts []string
	From  string // such as "flag --max-workers", "environment MAX_WORKERS", "file crawl.yaml"
}

// Layer is one source of settings, by setting name.
type Layer map[string]Given

// Loaded are the effective settings and where each came from.
type Loaded struct {
	Settings *Settings
	Origin   map[string]string // by setting name: "default", "profile own-site", or a Given's From
	Warnings []string          // what was clamped, and why
}

// Names that are not in the table: the profile decides what the table starts with, and the other two say what a crawl is rather than
// how it goes. They have the same three forms.
const (
	ProfileName  = "profile"
	StartURLName = "start-url"
	DataDirName  = "data-dir"
)

// Outside are the names that are not in the table.
func Outside() []string { return []string{ProfileName, StartURLName, DataDirName} }

// Load lays the layers over the defaults of the profile that they choose, the lowest layer first. The error names every bad
// value.
func Load(layers ...Layer) (*Loaded, error) {
	var errs []error
	profile, profileFrom := Polite, "default"
	for _, l := range layers {
		given, ok := l[ProfileName]
		if !ok {
			continue
		}
		p := Profile(given.Texts[len(given.Texts)-1])
		if !slices.Contains([]Profile{Polite, OwnSite, Safe}, p) {
			errs = append(errs, fmt.Errorf("%s: %q is not one of polite, own-site, safe", given.From, p))
			continue
		}
		profile, profileFrom = p, given.From
	}

	out := &Loaded{Settings: Defaults(profile), Origin: map[string]string{ProfileName: profileFrom}}
	plain := Defaults(Polite).Table()
	for i, e := range out.Settings.Table() {
		out.Origin[e.Name] = "default"
		if e.Value.String() != plain[i].Value.String() {
			out.Origin[e.Name] = "profile " + string(profile)
		}
		for _, l := range layers {
			given, ok := l[e.Name]
			if !ok {
				continue
			}
			if err := setAll(e.Value, given.Texts); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", given.From, err))
				continue
			}
			out.Origin[e.Name] = given.From
		}
	}
	errs = append(errs, out.Settings.faults()...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out.Warnings = out.Settings.clampSafe()
	return out, nil
}

// setAll gives v the texts of one layer, which replace what lower layers said.
func setAll(v Value, texts []string) error {
	if list, ok := v.(listValue); ok {
		*list.p = nil
	}
	for _, text := range texts {
		if err := v.Set(text); err != nil {
			return err
		}
	}
	return nil
}

// faults are the contradictions between settings that are each right by themselves.
func (s *Settings) faults() []error {
	var errs []error
	if s.MinDelayMS > s.MaxDelayMS {
		errs = append(errs, fmt.Errorf("min-delay-ms (%d) is larger than max-delay-ms (%d)", s.MinDelayMS, s.MaxDelayMS))
	}
	if s.UnthrottleThresholdMS > s.ThrottleThresholdMS {
		errs = append(errs, fmt.Errorf("unthrottle-threshold-ms (%d) is larger than throttle-threshold-ms (%d)", s.UnthrottleThresholdMS, s.ThrottleThresholdMS))
	}
	if s.Profile == OwnSite && s.MaxInflightPerHost < 1 {
		errs = append(errs, fmt.Errorf("max-inflight-per-host must be at least 1"))
	}
	return errs
}

// clampSafe applies the hard caps of the safe profile and says what it clamped.
func (s *Settings) clampSafe() []string {
	if s.Profile != Safe {
		return nil
	}
	var warnings []string
	clamp := func(name string, p *int, most int) {
		if *p > most || *p == 0 {
			warnings = append(warnings, fmt.Sprintf("profile safe caps %s at %d (requested: %d)", name, most, *p))
			*p = most
		}
	}
	clamp("max-workers", &s.MaxWorkers, SafeWorkers)
	clamp("max-inflight-per-host", &s.MaxInflightPerHost, 1)
	// A larger --max-urls is not clamped here: the crawl says how many were asked for when it stops at the cap.
	if s.Duration > SafeDuration || s.Duration == 0 {
		warnings = append(warnings, fmt.Sprintf("profile safe caps duration at %s (requested: %s)", SafeDuration, s.Duration))
		s.Duration = SafeDuration
	}
	if s.MaxURLs > SafePages || s.MaxURLs == 0 {
		warnings = append(warnings, fmt.Sprintf("profile safe caps max-urls at %d (requested: %d)", SafePages, s.MaxURLs))
	}
	return warnings
}

// PageCap is how many pages the crawl may fetch in its life; 0 is no limit.
func (s *Settings) PageCap() int {
	if s.Profile == Safe && (s.MaxURLs == 0 || s.MaxURLs > SafePages) {
		return SafePages
	}
	return s.MaxURLs
}
