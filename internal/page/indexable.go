package page

import (
	"slices"
	"strings"
)

// Reasons why a page is not listed in XML sitemaps.
const (
	NotFetched  = "not_fetched" // pending, its host is blocked, or it was excluded
	NotReached  = "error"       // no whole answer came: a network error, a trap, too large
	NotStatus   = "status"
	NotRobots   = "robots"
	NotRedirect = "redirect"
	NotType     = "type"
	NotNoIndex  = "noindex"
	NotCanon    = "canonical"
	NotLength   = "length"
)

// MaxIndexableURL is the longest URL that an XML sitemap may hold.
const MaxIndexableURL = 2048

// Indexable says whether search engines may list the page, and if not, why. The types are those that count as pages.
func Indexable(url string, o Outcome, status int, f *Facts, types []string) (bool, string) {
	switch o {
	case OK:
	case Pending, HostBlocked, Excluded:
		return false, NotFetched
	case Redirect, RedirectLoop:
		return false, NotRedirect
	case BlockedByRobots:
		return false, NotRobots
	case HTTPError, Throttled:
		return false, NotStatus
	default:
		return false, NotReached
	}
	switch {
	case status != 200:
		return false, NotStatus
	case !slices.Contains(types, MediaType(f.ContentType)):
		return false, NotType
	case f.NoIndex:
		return false, NotNoIndex
	case f.Canonical != "" && f.Canonical != url:
		return false, NotCanon
	case len(url) > MaxIndexableURL:
		return false, NotLength
	}
	return true, ""
}

// MediaType is a Content-Type without its parameters, in lower case.
func MediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
