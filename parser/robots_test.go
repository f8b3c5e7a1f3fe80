package parser

import (
	"strings"
	"testing"
)

func TestRobots(t *testing.T) {
	for _, tt := range []struct {
		html, header, text string
		noIndex, noFollow  bool
	}{
		{"", "", "", false, false},
		{"<meta name=robots content='NoIndex, nofollow'>", "", "noindex, nofollow", true, true},
		{"<meta name=ROBOTS content=none>", "", "none", true, true},
		{"<meta name=robots content='all, index'>", "", "all, index", false, false},
		{"<meta name=robots content=noindex><meta name=robots content=index>", "", "noindex, index", true, false},
		{"<meta name=robots content='noindex, NOINDEX'><meta name=robots content=noindex>", "", "noindex", true, false},
		{"<meta name=MapWright content=nofollow>", "", "nofollow", false, true},
		{"<meta name=googlebot content=noindex>", "", "", false, false},
		{"<meta name=robots content='noindex;nofollow'>", "", "noindex;nofollow", true, true},
		{"<meta name=robots content='noindex nofollow'>", "", "noindex nofollow", true, true},
		{"<meta name=robots content='max-snippet:-1, nonessential'>", "", "max-snippet:-1, nonessential", false, false},
		{"<meta name=robots content=', ,'>", "", "", false, false},
		{"<template><meta name=robots content=noindex></template>", "", "", false, false},

		{"", "noindex, nofollow", "noindex, nofollow", true, true},
		{"", "otherbot: noindex, nofollow", "", false, false},
		{"", "otherbot: noindex, mapwright: nofollow", "nofollow", false, true},
		{"", "Mapwright: none", "none", true, true},
		{"", "max-image-preview: large, noindex", "max-image-preview: large, noindex", true, false},
		{"", "unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after: 25 jun 2010 15:00:00 pst", false, false},
		{"", "unavailable_after: Sat, 25 Jun 2010 15:00:00 GMT, noindex", "unavailable_after: sat, 25 jun 2010 15:00:00 gmt, noindex", true, false},
		{"<meta name=robots content=nofollow>", "noindex", "noindex, nofollow", true, true},
	} {
		pg := read(t, Options{}, tt.html, "X-Robots-Tag", tt.header)
		if pg.RobotsMeta != tt.text || pg.NoIndex != tt.noIndex || pg.NoFollow != tt.noFollow {
			t.Errorf("%s and %q: %q, noindex %v, nofollow %v, want %q, %v, %v",
				tt.html, tt.header, pg.RobotsMeta, pg.NoIndex, pg.NoFollow, tt.text, tt.noIndex, tt.noFollow)
		}
	}
	if pg := read(t, Options{RobotsToken: "Other"}, "<meta name=other content=noindex>"); !pg.NoIndex {
		t.Error("a chosen product token is not heeded")
	}
	// What forbids is heeded even where the text is cut.
	if pg := read(t, Options{}, "<meta name=robots content='"+strings.Repeat("x, y", 1000)+", noindex'>"); !pg.NoIndex {
		t.Error("noindex behind a long list is not heeded")
	}
}
