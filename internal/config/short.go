package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A Short is another way to give values of settings, under a name that users of other programs know. It has the three
// forms of a setting. Each source of settings replaces it by the settings that it stands for, so only these are
// stored, permitted and shown.
type Short struct {
	Name   string
	Letter string // of the flag; may be empty
	Group  Group
	Kind   string // of its value: bool or duration
	Usage  string
	// PerRun: the settings that it stands for are about this process.
	PerRun bool
	// means returns the settings that a text stands for, by name. It is nil for a bool that is false.
	means func(text string) (map[string]string, error)
}

// Shorts lists them in the order in which help shows them.
func Shorts() []Short {
	return []Short{
		{Name: "delay", Group: Pace, Kind: "duration", means: meansDelay,
			Usage: "time between request starts of one host, such as 2s: short for --min-delay-ms and --max-delay-ms " +
				"with this value and --base-delay-ms 0. A Crawl-delay of robots.txt, slow answers and refusals still " +
				"make it longer, and per-ip allows 10 starts per second of one address"},
		{Name: "list", Group: Limits, Kind: "bool", means: whenOn(map[string]string{"max-depth": "0"}),
			Usage: "only the given URLs and what they redirect to: no links, no sitemaps, no indexes; short for " +
				"--max-depth 0"},
		{Name: "verbose", Letter: "v", Group: Seeing, Kind: "bool", PerRun: true,
			means: whenOn(map[string]string{"log-level": "debug", "no-progress": "true"}),
			Usage: "one line per request, and no live view; short for --log-level debug --no-progress"},
	}
}

func meansDelay(text string) (map[string]string, error) {
	var d time.Duration
	if err := number(&d, 0, 0, day).Set(text); err != nil {
		return nil, err
	}
	if d%time.Millisecond != 0 {
		return nil, fmt.Errorf("%q is not a whole number of milliseconds", text)
	}
	ms := strconv.FormatInt(d.Milliseconds(), 10)
	return map[string]string{"min-delay-ms": ms, "max-delay-ms": ms, "base-delay-ms": "0"}, nil
}

// whenOn is the meaning of a Short that is on or off.
func whenOn(settings map[string]string) func(string) (map[string]string, error) {
	return func(text string) (map[string]string, error) {
		on := false
		if err := (boolValue{p: &on}).Set(text); err != nil || !on {
			return nil, err
		}
		return settings, nil
	}
}

// SpellOut returns the layer with settings instead of Shorts. The error names every Short whose text is bad, or that
// the layer contradicts by giving one of its settings too.
func (l Layer) SpellOut() (Layer, error) {
	var errs []error
	out := maps.Clone(l)
	for _, short := range Shorts() {
		given, ok := l[short.Name]
		if !ok {
			continue
		}
		delete(out, short.Name)
		text := given.Texts[len(given.Texts)-1]
		settings, err := short.means(text)
		if err != nil {
			errs = append(errs, &settingError{short.Name, given.From, err})
		}
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if other, twice := out[name]; twice {
				errs = append(errs, &settingError{short.Name, given.From, fmt.Errorf("it sets %s, which %s sets too: "+
					"give one of the two", name, other.From)})
				continue
			}
			out[name] = Given{Texts: []string{settings[name]}, From: given.From}
		}
	}
	return out, errors.Join(errs...)
}
