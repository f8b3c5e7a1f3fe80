package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOfBuilds(t *testing.T) {
	for _, c := range []struct{ module, revision, version, commit string }{
		{"", "", nextVersion, ""},
		{"(devel)", "", nextVersion, ""},
		{"v0.0.0-20261117162008-8282efb8282e", "8282efb8282e00", nextVersion, "8282efb8282e00"},
		{"v0.0.0-20261117162008-8282efb8282e", "", nextVersion, "8282efb8282e"},
		{"v1.2.3", "", "1.2.3", ""},
		{"v1.2.3-rc.1", "", "1.2.3-rc.1", ""},
		{"v1.2.4-0.20261117162008-8282efb8282e", "", "1.2.4-0.20261117162008-8282efb8282e", "8282efb8282e"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module}}
		if c.revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: c.revision}}
		}
		if v, r := moduleVersion(info, true), commit(info, true); v != c.version || r != c.commit {
			t.Errorf("%q: version %q, commit %q; want %q, %q", c.module, v, r, c.version, c.commit)
		}
	}
	if v, r := moduleVersion(nil, false), commit(nil, false); v != nextVersion || r != "" {
		t.Errorf("without build information: %q, %q", v, r)
	}
}

// CHANGELOG.md has a section for each version, the newest first, below that of what is not released. The version of a
// build without a tag comes after all of them, and is the one that the changelog announces.
func TestChangelogHasVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) < 3 || headings[0][1] != "[Unreleased]" {
		t.Fatalf("the sections are %q", headings)
	}
	next := strings.TrimSuffix(nextVersion, "-dev")
	if !strings.Contains(string(text), `"Unreleased" becomes `+next+",") {
		t.Errorf("the changelog does not say that what is not released becomes %s", next)
	}
	newer := nextVersion
	for _, h := range headings[1:] {
		section := regexp.MustCompile(`^\[(\d+\.\d+\.\d+(?:-[a-z]+\.\d+)?)\] - \d{4}-\d{2}-\d{2}$`).FindStringSubmatch(h[1])
		if section == nil {
			t.Errorf("%q is no version with a date", h[1])
		} else if order(section[1]) >= order(newer) {
			t.Errorf("%s stands after %s", section[1], newer)
		} else {
			newer = section[1]
		}
	}
}

// order makes texts of versions that compare as the versions do: numbers of one length, and no pre-release after all.
func order(version string) string {
	if !strings.Contains(version, "-") {
		version += "-~"
	}
	return regexp.MustCompile(`\d+`).ReplaceAllStringFunc(version, func(n string) string { return fmt.Sprintf("%9s", n) })
}
