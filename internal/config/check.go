package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/fetch"
)

// The checks call the packages that use the values. This way a bad value is refused together with all others, before
// anything is created.

// seedings are the names that seeding-strategy takes.
func seedings() []string { return []string{"none", "sitemap", "ct", "commoncrawl", "all"} }

// oneOf checks that a text is one of several names.
func oneOf(names []string) func(string) error {
	return func(text string) error {
		if !slices.Contains(names, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(names, ", "))
		}
		return nil
	}
}

// readBy checks that a function can read a text.
func readBy[T any](read func(string) (T, error)) func(string) error {
	return func(text string) error {
		_, err := read(text)
		return err
	}
}

func checkURL(text string) error {
	if _, err := weburl.Parse(text); err != nil {
		return fmt.Errorf("%q: %w", weburl.HideUserinfo(text), err)
	}
	return nil
}

// mostBase is how many bytes the address of the sitemaps has at most. An index repeats it for each of its files, of
// which there may be one for each page.
const mostBase = 500

func checkBase(text string) error {
	if len(text) > mostBase {
		return fmt.Errorf("it has %d bytes, and %d are allowed", len(text), mostBase)
	}
	return checkURL(text)
}

// checkLogin refuses a password in the URL: a crawl would keep it, and no request sends it.
func checkLogin(text string) error {
	if weburl.HideUserinfo(text) != text {
		return errors.New("it has a user name or a password, which is not sent: give --basic-auth or --login-data")
	}
	return checkURL(text)
}

func checkAddress(text string) error {
	if _, _, err := net.SplitHostPort(text); err != nil {
		return fmt.Errorf("%q is not an address such as localhost:9090", text)
	}
	return nil
}

func checkOrigin(text string) error { return new(fetch.Audience).Add(text) }

// checkBasicAuth does not repeat the text, which is a secret.
func checkBasicAuth(text string) error {
	_, _, err := fetch.ParseBasicAuth(text)
	return err
}

func checkUserAgent(text string) error {
	if !httpguts.ValidHeaderFieldValue(text) {
		return fmt.Errorf("%q has a line break or another control character", text)
	}
	return nil
}

// checkHeader does not repeat the text, which may be a secret.
func checkHeader(text string) error {
	name, value, ok := strings.Cut(text, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return errors.New("a header must have the form 'Name: value'")
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("the value of header %s has a line break or another control character", name)
	}
	return nil
}
