package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// removed are the settings of earlier versions that are constants now, with their values. Stored plans, configuration
// files, the environment and submissions may name them: the text is ignored, and a warning says so.
func removed() map[string]string {
	return map[string]string{
		"max-url-length": "2048", "trap-repeats": "4", "trap-params": "20", "trap-variants": "20000",
		"trap-reorders": "100", "trap-values": "48", "trap-barren": "100",
		"max-sitemap-depth": "5", "max-sitemap-children": "50000", "max-sitemaps-per-host": "100000",
		"max-foreign-sitemaps": "1000", "max-sitemaps": "1000000",
		"hot-set-mb": "256", "commit-batch": "5000", "commit-interval": "20ms",
	}
}

// Removed gives the value of a setting of an earlier version that is a constant now, and says what to do instead. It is
// empty for any other name.
func Removed(setting string) string {
	value, ok := removed()[setting]
	if !ok {
		return ""
	}
	text := "it is no setting any more; its value is always " + value
	if strings.HasPrefix(setting, "trap-") {
		text += ", and traps=false switches all rules for traps off"
	}
	return text
}

// removedIn are the warnings for removed settings that layers name. Plans of earlier versions hold every setting, so
// one that a plan holds with the constant's value needs no warning.
func removedIn(layers []Layer) (warnings []string) {
	constants := removed()
	for _, l := range layers {
		for _, name := range slices.Sorted(maps.Keys(constants)) {
			given, ok := l[name]
			from := given.From
			if from == originCrawl {
				ok = ok && !slices.Equal(given.Texts, []string{constants[name]})
				from = "the crawl's " + name
			}
			if ok {
				warnings = append(warnings, fmt.Sprintf("%s is ignored: %s", from, Removed(name)))
			}
		}
	}
	return warnings
}
