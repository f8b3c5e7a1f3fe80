package main

import (
	"regexp"
	"strings"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// isAllowed reports whether an origin's robots.txt lets this crawler fetch a URL, by the rules of RFC 9309 for all
// agents ("*"). The longest pattern that matches decides; of two that are equally long, the one that allows.
func isAllowed(origin frontier.OriginFact, u weburl.URL) bool {
	if origin.State == frontier.OriginFailed {
		return false
	}
	allowed, longest := true, 0
	forUs, inRules := false, false
	for line := range strings.Lines(string(origin.Body)) {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "user-agent":
			if inRules { // a new group begins
				forUs, inRules = false, false
			}
			forUs = forUs || value == "*"
		case "allow", "disallow":
			inRules = true
			allow := name == "allow"
			if forUs && (len(value) > longest || len(value) == longest && allow) && matches(value, u.RequestURI()) {
				allowed, longest = allow, len(value)
			}
		}
	}
	return allowed
}

// matches reports whether a path begins with a pattern, in which "*" stands for any text, and "$" at the end for the
// end of the path.
func matches(pattern, path string) bool {
	expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	if text, whole := strings.CutSuffix(expr, `\$`); whole {
		expr = text + "$"
	}
	found, err := regexp.MatchString("^"+expr, path)
	return found && err == nil
}
