package robots

import "strings"

// pathQuery returns the part of a URL that rules are matched against: its path
// and query, without the fragment. It is meant for URLs as users write them, with
// or without a scheme; for "" and a bare host it is "/".
func pathQuery(url string) string {
	url, _, _ = strings.Cut(url, "#")
	rest, ok := strings.CutPrefix(url, "//")
	if !ok {
		// A scheme ends before the first character that begins a path or a query.
		if i := strings.Index(url, "://"); i >= 0 && !strings.ContainsAny(url[:i], "/?;") {
			rest = url[i+3:]
		}
	}
	i := strings.IndexAny(rest, "/?;")
	switch {
	case i < 0:
		return "/"
	case rest[i] != '/':
		return "/" + rest[i:]
	}
	return rest[i:]
}
