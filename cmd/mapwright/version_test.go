package main

import (
	"runtime/debug"
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
