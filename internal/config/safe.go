package config

import (
	"fmt"
	"strconv"
	"time"
)

// Bounds of the safe profile. No layer can exceed them. The delays are lower bounds, the others upper bounds.
const (
	safeWorkers    = 1
	safeInflight   = 1
	SafePages      = 50
	SafeDuration   = 60 * time.Second
	safeMinDelayMS = 200
	safeMaxDelayMS = 500
)

// profileRequest is one layer's request for a profile.
type profileRequest struct {
	layer   int     // index of the layer; a higher layer normally wins
	profile Profile // empty for safe=false, which requests any profile but safe
	from    string
}

// chooseProfile returns the profile that the layers request and the source of the request. The highest layer wins, with
// one exception: if any layer requests safe, the crawl is safe. Requests of the same or a higher layer that contradict
// it are named in warnings.
func chooseProfile(layers []Layer) (profile Profile, from string, warnings []string, errs []error) {
	requests, errs := profileRequests(layers)
	profile, from = Polite, originDefault
	lowestSafe := -1
	for _, r := range requests {
		switch {
		case r.profile == Safe:
			if lowestSafe < 0 {
				lowestSafe = r.layer
			}
			profile, from = Safe, r.from
		case r.profile != "" && lowestSafe < 0:
			profile, from = r.profile, r.from
		}
	}
	if lowestSafe < 0 {
		return profile, from, nil, errs
	}
	why := from + " requests the safe profile"
	if from == originCrawl {
		why = "it was started with the safe profile"
	}
	for _, r := range requests {
		if r.profile != Safe && r.layer >= lowestSafe {
			warnings = append(warnings, fmt.Sprintf("a safe crawl stays safe: %s is ignored, because %s", r.from, why))
		}
	}
	return profile, from, warnings, errs
}

// profileRequests lists what the layers say about the profile, the lowest layer first, and the faults in it.
func profileRequests(layers []Layer) (requests []profileRequest, errs []error) {
	for i, l := range layers {
		for _, name := range []string{ProfileName, SafeName} {
			given := l[name]
			for _, text := range given.Texts {
				r, on := profileRequest{i, Profile(text), given.From}, false
				err := oneOf(Profiles())(text)
				if name == SafeName {
					r.profile, r.from = "", given.From+"=false"
					if err = (boolValue{p: &on}).Set(text); on {
						r.profile, r.from = Safe, given.From
					}
				}
				if err != nil {
					errs = append(errs, &settingError{name, given.From, err})
					continue
				}
				requests = append(requests, r)
			}
		}
	}
	return requests, errs
}

// clampSafe applies the bounds of the safe profile. Each value that a layer requested beyond them gives a warning.
func (l *Loaded) clampSafe() {
	s := l.Settings
	if s.Profile != Safe {
		return
	}
	if from := l.Origin["max-urls"]; from != originOf(Safe) {
		s.RequestedURLs = s.MaxURLs
	}
	clamp := func(name string, p *int, bound int, inside bool) {
		if !inside {
			l.clamped(name, strconv.Itoa(*p), strconv.Itoa(bound))
			*p = bound
		}
	}
	clamp("max-workers", &s.MaxWorkers, safeWorkers, s.MaxWorkers <= safeWorkers)
	clamp("max-inflight-per-host", &s.MaxInflightPerHost, safeInflight, s.MaxInflightPerHost <= safeInflight)
	clamp("min-delay-ms", &s.MinDelayMS, safeMinDelayMS, s.MinDelayMS >= safeMinDelayMS)
	clamp("max-delay-ms", &s.MaxDelayMS, safeMaxDelayMS, s.MaxDelayMS >= safeMaxDelayMS)
	clamp("max-urls", &s.MaxURLs, SafePages, s.MaxURLs > 0 && s.MaxURLs <= SafePages)
	clamp("max-checks", &s.MaxChecks, SafePages, s.MaxChecks <= SafePages)
	if !s.PerIP {
		l.clamped("per-ip", "false", "true")
		s.PerIP = true
	}
	if s.Duration <= 0 || s.Duration > SafeDuration {
		l.clamped("duration", s.Duration.String(), SafeDuration.String())
		s.Duration = SafeDuration
	}
}

// clamped records that a requested value was replaced by a bound of the safe profile. A safe crawl stores max-urls 0 if
// no number of pages was requested; that is not a request.
func (l *Loaded) clamped(name, requested, bound string) {
	from := l.Origin[name]
	l.Origin[name] = originOf(Safe)
	if name == "max-urls" && from == originCrawl && requested == "0" {
		return
	}
	l.Origin[name] += fmt.Sprintf(", instead of %s from %s", requested, from)
	change := "caps %s at %s"
	switch name {
	case "min-delay-ms", "max-delay-ms":
		change = "raises %s to %s"
	case "per-ip":
		change = "sets %s to %s"
	}
	l.Warnings = append(l.Warnings, fmt.Sprintf("profile safe "+change+" (requested: %s by %s)", name, bound, requested,
		from))
}

// PageCap is how many pages the crawl may fetch in all its runs; 0 is no limit.
func (s *Settings) PageCap() int {
	if s.Profile == Safe && (s.MaxURLs == 0 || s.MaxURLs > SafePages) {
		return SafePages
	}
	return s.MaxURLs
}
