// Package words writes counts, times and long texts as people read them in messages.
package words

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Count writes a count of something. If no plural is given, the rules of English form it.
func Count(n int64, one string, more ...string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), one, strings.Join(more, ""))
}

// ByCount returns the names of counts, the largest first.
func ByCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// Counts writes the counts of the given names, in this order.
func Counts(counts map[string]int64, names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = name + " " + humanize.Comma(counts[name])
	}
	return strings.Join(parts, ", ")
}

// Span writes a time that is left: tenths under ten seconds, else whole seconds, and days where there are two or more.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return english.Plural(int(d.Round(day)/day), "day", "")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Shorten returns at most the first most bytes of a text, followed by an ellipsis if the text is longer.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
