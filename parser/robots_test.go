package parser

import (
	"strings"
	"testing"
	"time"
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
		{"", "unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after: 25 jun 2010 15:00:00 pst", false,
			false},
		{"", "unavailable_after: Sat, 25 Jun 2010 15:00:00 GMT, noindex",
			"unavailable_after: sat, 25 jun 2010 15:00:00 gmt, noindex", true, false},
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

func TestUnavailableAfter(t *testing.T) {
	const three = "2020-06-25T15:00:00Z"
	for _, tt := range []struct{ directives, want, text string }{
		{"unavailable_after: 25 Jun 2020 15:00:00 UTC", three, ""},
		{"Unavailable_After:25 jun 2020 15:00:00 GMT", three, ""},
		{"unavailable_after: 25-Jun-20 15:00:00 UTC", three, ""},
		{"unavailable_after: Thursday, 25-Jun-20 15:00:00 UTC", three, ""},
		{"unavailable_after: Thu, 25 Jun 2020 15:00:00 GMT", three, ""},
		{"unavailable_after: Thu, 25 Jun 20 15:00 GMT", three, ""},
		{"unavailable_after: Thu 25 Jun 2020 15:00:00 GMT", three, ""},
		{"unavailable_after: 25 Jun 2020 07:00:00 PST", three, ""},
		{"unavailable_after: 25 Jun 2020 17:00:00 +0200", three, ""},
		{"unavailable_after: 25 Jun 2020 15:00:00", three, ""},
		{"unavailable_after: 2020-06-25T15:00:00Z", three, ""},
		{"unavailable_after: 2020-06-25T17:00:00+02:00", three, ""},
		{"unavailable_after: 2020-06-25T10:30:00-04:30", three, ""},
		{"unavailable_after: 2020-06-25T15:00:00.000Z", three, ""},
		{"unavailable_after: 2020-06-25 15:00:00", three, ""},
		{"unavailable_after: 2020-06-25T15:00", three, ""},
		{"unavailable_after: 2020-06-25", "2020-06-26T00:00:00Z", ""},
		{"unavailable_after: 25 Jun 2020", "2020-06-26T00:00:00Z", ""},
		{"unavailable_after: 2021-06-25, noarchive, unavailable_after: 2020-06-25", "2020-06-26T00:00:00Z", ""},
		{"unavailable_after: Thu, 25 Jun 2020 15:00:00 GMT, noarchive", three,
			"unavailable_after: thu, 25 jun 2020 15:00:00 gmt, noarchive"},
		{"unavailable_after: never", "", ""},
		{"unavailable_after: Thu, noarchive", "", ""},
		{"unavailable_after: Thu", "", ""},
		{"unavailable_after: 31 Feb 2020", "", ""},
		{"unavailable_after 2020-06-25", "", ""},
		{"unavailable_after:", "", ""},
		{"unavailable_after", "", ""},
	} {
		for _, pg := range []*Page{
			read(t, Options{}, "<meta name=robots content='"+tt.directives+"'>"),
			read(t, Options{}, "", "X-Robots-Tag", tt.directives),
			read(t, Options{}, "", "X-Robots-Tag", "mapwright: "+tt.directives),
			read(t, Options{}, "", "X-Robots-Tag", "otherbot: noindex, mapwright: "+tt.directives),
		} {
			got := ""
			if !pg.UnavailableAfter.IsZero() {
				got = pg.UnavailableAfter.Format(time.RFC3339)
			}
			if got != tt.want || pg.NoIndex || tt.text != "" && pg.RobotsMeta != tt.text {
				t.Errorf("%s: %q, noindex %v, %q", tt.directives, got, pg.NoIndex, pg.RobotsMeta)
			}
		}
		if pg := read(t, Options{}, "", "X-Robots-Tag", "otherbot: "+tt.directives); !pg.UnavailableAfter.IsZero() {
			t.Errorf("%s for another crawler counts", tt.directives)
		}
	}
}
