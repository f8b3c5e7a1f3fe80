package weburl

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// conformanceFile opens a file of the public test vectors. They live outside of
// the project; without them the test is skipped, but never in CI.
func conformanceFile(t *testing.T, name string) *os.File {
	t.Helper()
	dir := os.Getenv("CONFORMANCE_DIR")
	if dir == "" {
		dir = filepath.Join(moduleRoot(t), "..", "shared", "conformance")
	}
	f, err := os.Open(filepath.Join(dir, name))
	switch {
	case errors.Is(err, os.ErrNotExist) && os.Getenv("CI") != "true":
		t.Skipf("no conformance data: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

// wptRows reads a web-platform-tests file: an array of rows with comments, which
// are strings, between them.
func wptRows[T any](t *testing.T, name string) []T {
	t.Helper()
	var raw []json.RawMessage
	if err := json.NewDecoder(conformanceFile(t, name)).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	var rows []T
	for _, m := range raw {
		if m[0] == '"' {
			continue
		}
		var row T
		if err := json.Unmarshal(m, &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func jsonLines[T any](t *testing.T, name string) []T {
	t.Helper()
	var rows []T
	for sc := bufio.NewScanner(conformanceFile(t, name)); sc.Scan(); {
		var row T
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// isHTTP reports whether s is meant as an http or https URL.
func isHTTP(s string) bool {
	s = strings.ToLower(removeTabNewline(trimControl(s)))
	return strings.HasPrefix(s, "http:") || strings.HasPrefix(s, "https:")
}

func TestWPTURL(t *testing.T) {
	type row struct {
		Input, Base, Href string
		Failure           bool
		Protocol, Port    string
		Hostname          string
		Pathname, Search  string
	}
	judged := 0
	for _, c := range wptRows[row](t, "url/wpt_urltestdata.json") {
		href, err := resolveAsStandard(c.Base, c.Input)
		if !isHTTP(c.Href) {
			// Failures that lie in other schemes are failures here as well, and
			// what succeeds in other schemes has to be refused.
			judged++
			if err == nil {
				t.Errorf("resolveAsStandard(%q, %q) = %q, want an error", c.Base, c.Input, href)
			}
			continue
		}
		judged++
		if err != nil || href != c.Href {
			t.Errorf("resolveAsStandard(%q, %q) = %q, %v, want %q", c.Base, c.Input, href, err, c.Href)
			continue
		}
		u, err := Parse(href)
		if err != nil {
			t.Errorf("Parse(%q) = %v", href, err)
			continue
		}
		if u.Scheme()+":" != c.Protocol || u.Host() != c.Hostname || u.Port() != c.Port {
			t.Errorf("Parse(%q) has %q, %q, %q, want %q, %q, %q", href, u.Scheme(), u.Host(), u.Port(), c.Protocol,
				c.Hostname, c.Port)
		}
		if path := string(appendCanonical(nil, c.Pathname)); u.Path() != path {
			t.Errorf("Parse(%q).Path() = %q, want %q", href, u.Path(), path)
		}
		if query := string(appendCanonical(nil, strings.TrimPrefix(c.Search, "?"))); u.Query() != query {
			t.Errorf("Parse(%q).Query() = %q, want %q", href, u.Query(), query)
		}
	}
	if judged < 500 {
		t.Errorf("only %d rows judged", judged)
	}
	t.Logf("%d rows", judged)
}

func TestWPTToASCII(t *testing.T) {
	type row struct {
		Input  string
		Output *string
	}
	rows := wptRows[row](t, "url/wpt_toascii.json")
	for _, c := range rows {
		u, err := Parse("https://" + c.Input + "/x")
		switch {
		case c.Output == nil && err == nil:
			t.Errorf("host %q became %q, want an error", c.Input, u.Host())
		case c.Output != nil && (err != nil || u.Host() != *c.Output):
			t.Errorf("host %q became %q, %v, want %q", c.Input, u.Host(), err, *c.Output)
		}
	}
	if len(rows) == 0 {
		t.Error("no rows")
	}
}

func TestCrawlerCommonsResolve(t *testing.T) {
	type row struct{ Input, Base, Expected string }
	rows := jsonLines[row](t, "url/crawler_commons_resolve.jsonl")
	for _, c := range rows {
		href, err := resolveAsStandard(c.Base, c.Input)
		switch {
		case !isHTTP(c.Expected) && err == nil:
			t.Errorf("resolveAsStandard(%q, %q) = %q, want an error", c.Base, c.Input, href)
		case isHTTP(c.Expected) && (err != nil || href != c.Expected):
			t.Errorf("resolveAsStandard(%q, %q) = %q, %v, want %q", c.Base, c.Input, href, err, c.Expected)
		}
	}
	if len(rows) == 0 {
		t.Error("no rows")
	}
}

func TestPublicSuffixVectors(t *testing.T) {
	type row struct{ Input, Registrable *string }
	rows := jsonLines[row](t, "psl/psl_vectors.jsonl")
	for _, c := range rows {
		if c.Input == nil {
			continue // asks what a null does, which Go does not have
		}
		host, err := toASCII(*c.Input)
		if err != nil {
			t.Errorf("toASCII(%q) = %v", *c.Input, err)
			continue
		}
		want := host // a name that cannot be registered stands for itself
		if c.Registrable != nil {
			if want, err = toASCII(*c.Registrable); err != nil {
				t.Errorf("toASCII(%q) = %v", *c.Registrable, err)
				continue
			}
		}
		if got := RegistrableDomain(host); got != want {
			t.Errorf("RegistrableDomain(%q) = %q, want %q", host, got, want)
		}
	}
	if len(rows) == 0 {
		t.Error("no rows")
	}
}
