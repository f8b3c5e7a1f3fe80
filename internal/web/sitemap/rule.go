package sitemap

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Rule gives a value to the pages whose URL matches an expression.
type Rule struct {
	match *regexp.Regexp
	value string
}

// CutRule splits EXPRESSION=VALUE. The value follows the last equals sign, since an expression may have some.
func CutRule(text string) (expression, value string, ok bool) {
	at := strings.LastIndexByte(text, '=')
	if at <= 0 {
		return "", "", false
	}
	return text[:at], strings.TrimSpace(text[at+1:]), true
}

// ParseRules reads rules of the form EXPRESSION=VALUE, whose values check accepts.
func ParseRules(texts []string, check func(value string) error) (rules []Rule, err error) {
	for _, text := range texts {
		expression, value, ok := CutRule(text)
		if !ok {
			return nil, fmt.Errorf("%q has not the form EXPRESSION=VALUE", text)
		}
		match, err := regexp.Compile(expression)
		if err == nil {
			err = check(value)
		}
		if err != nil {
			return nil, err
		}
		rules = append(rules, Rule{match, value})
	}
	return rules, nil
}

// FirstMatch is the value of the first rule that a URL matches, or "".
func FirstMatch(rules []Rule, url string) string {
	for i := range rules {
		if rules[i].match.MatchString(url) {
			return rules[i].value
		}
	}
	return ""
}

// CheckFrequency refuses a text that the protocol does not know as a changefreq.
func CheckFrequency(text string) error {
	known := []string{"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}
	if !slices.Contains(known, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(known, ", "))
	}
	return nil
}

// CheckPriority refuses a text that is no priority.
func CheckPriority(text string) error {
	if p, err := strconv.ParseFloat(text, 64); err != nil || !(p >= 0 && p <= 1) {
		return fmt.Errorf("%q is not a number between 0.0 and 1.0", text)
	}
	return nil
}

// DefaultName is the name of sitemaps that were given no other: sitemap.xml.
const DefaultName = "sitemap"

// CheckName refuses a text that cannot be the name of sitemap files. Upper-case letters would make names that some
// file systems take for the same.
func CheckName(text string) error {
	const first = "abcdefghijklmnopqrstuvwxyz0123456789"
	switch {
	case strings.HasSuffix(text, ".xml"), strings.HasSuffix(text, ".gz"):
		return fmt.Errorf("%q: give the name without .xml and .gz, which are added to it", text)
	case text == "", len(text) > 50, strings.Trim(text, first+".-_") != "", !strings.Contains(first, text[:1]):
		return fmt.Errorf("%q: a name has up to 50 lower-case letters, digits, dots, hyphens and underscores, and "+
			"begins with a letter or a digit", text)
	}
	return nil
}
