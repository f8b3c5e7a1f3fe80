package recrawl

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
)

func TestConditions(t *testing.T) {
	const date = "Sun, 01 Feb 2026 10:00:00 GMT"
	with := func(tag, header string) *Known {
		return ok(read(1, func(f *page.Facts) { f.ETag, f.LastModifiedHeader = tag, header }))
	}
	for name, c := range map[string]struct {
		known       *Known
		match, date string
	}{
		"never visited":        {nil, "", ""},
		"no validators":        {with("", ""), "", ""},
		"tag":                  {with(`"a"`, ""), `"a"`, ""},
		"date":                 {with("", date), "", date},
		"both":                 {with(`"a"`, date), `"a"`, date},
		"a date in no form":    {with("", "yesterday"), "", "yesterday"},
		"weak tag":             {with(`W/"a"`, ""), `W/"a"`, ""},
		"weak with a suffix":   {with(`W/"a-gzip"`, ""), `W/"a-gzip"`, ""},
		"tag without quotes":   {with(`a-gzip`, ""), `a-gzip`, ""},
		"-gzip":                {with(`"a-gzip"`, ""), `"a-gzip", "a"`, ""},
		"--gzip":               {with(`"a--gzip"`, ""), `"a--gzip", "a"`, ""},
		";gzip":                {with(`"a;gzip"`, ""), `"a;gzip", "a"`, ""},
		"-br":                  {with(`"a-br"`, ""), `"a-br", "a"`, ""},
		"-zstd":                {with(`"a-zstd"`, ""), `"a-zstd", "a"`, ""},
		"-deflate":             {with(`"a-deflate"`, ""), `"a-deflate", "a"`, ""},
		"only a suffix":        {with(`"-gzip"`, ""), `"-gzip"`, ""},
		"ends like one":        {with(`"unzipgzip"`, ""), `"unzipgzip"`, ""},
		"a tag that means any": {with(`*`, date), "", date},
		"a huge tag":           {with(`"`+strings.Repeat("a", 4000)+`"`, ""), "", ""},
		"a huge date":          {with("", strings.Repeat("a", 4000)), "", ""},
		"read, no text hash":   {ok(read(1, func(f *page.Facts) { f.TextHash = nil })), "", ""},
		"document":             {ok(&page.Facts{ETag: `"a"`}), `"a"`, ""},
		"an error with a tag":  {&Known{Outcome: page.HTTPError, Status: 404, Facts: &page.Facts{ETag: `"a"`}}, "", ""},
		"a redirect with date": {&Known{Outcome: page.Redirect, Status: 301,
			Facts: &page.Facts{LastModifiedHeader: date}}, "", ""},
	} {
		h := Conditions(c.known)
		if h.Get("If-None-Match") != c.match || h.Get("If-Modified-Since") != c.date ||
			(h == nil) != (c.match+c.date == "") {
			t.Errorf("%s: %v", name, h)
		}
	}
}

func TestTakeHeaders(t *testing.T) {
	sent := now.Add(-time.Hour) // by the server's clock, which is slow
	for name, c := range map[string]struct {
		modified, date time.Time
		want           bool
	}{
		"long before":            {sent.Add(-time.Hour), sent, true},
		"just over a minute":     {sent.Add(-61 * time.Second), sent, true},
		"within a minute":        {sent.Add(-59 * time.Second), sent, false},
		"now":                    {sent, sent, false},
		"in the future":          {sent.Add(24 * time.Hour), sent, false},
		"now, without a Date":    {now, time.Time{}, false},
		"before, without a Date": {now.Add(-time.Hour), time.Time{}, true},
	} {
		h := http.Header{"Last-Modified": {c.modified.Format(http.TimeFormat)}}
		if !c.date.IsZero() {
			h.Set("Date", c.date.Format(http.TimeFormat))
		}
		var f page.Facts
		TakeHeaders(&f, h, now)
		if f.LastModifiedHeader != h.Get("Last-Modified") || f.LastModified.IsZero() == c.want || c.want &&
			!f.LastModified.Equal(c.modified) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	var f page.Facts
	TakeHeaders(&f, http.Header{"X-Robots-Tag": {"noindex", "bot: none"},
		"Link": {`</a>; rel="preload"; title="x, y", <https://x.test/?a=1,2>; REL="Canonical"`,
			"</b>; rel=next"},
		"Last-Modified": {"soon"}}, now)
	want := "x-robots-tag: noindex\nx-robots-tag: bot: none\nlink: <https://x.test/?a=1,2>; REL=\"Canonical\""
	if f.HeaderRules != want || !f.LastModified.IsZero() || f.LastModifiedHeader != "soon" {
		t.Errorf("%+v", f)
	}
	TakeHeaders(&f, http.Header{"X-Robots-Tag": {strings.Repeat("a", 5000)}}, now)
	if len(f.HeaderRules) != maxRules {
		t.Errorf("%d bytes of rules are kept", len(f.HeaderRules))
	}
	if rulesDiffer(f.HeaderRules, http.Header{"X-Robots-Tag": {strings.Repeat("a", 5000)}}) {
		t.Error("long rules differ from themselves")
	}
}

func TestDifferences(t *testing.T) {
	want := []Difference{{StatusCode, "200", "404"}, {Title, "", strings.Repeat("é", 300)}, {TextHash, "00", ""}}
	b := appendDifferences([]byte("x"), now, want)[1:]
	if at, got, err := DecodeDifferences(b); err != nil || !at.Equal(now) || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v %v", at, got, err)
	}
	later := append(append([]byte{}, b...), 250, 1, 'x', 0)
	if _, got, err := DecodeDifferences(later); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with a later field: %v %v", got, err)
	}
	if none := appendDifferences(nil, now, nil); len(none) == 0 {
		t.Error("the form of no differences is empty")
	}
	for i := range b {
		if _, _, err := DecodeDifferences(b[:i]); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	b[0]++
	if _, _, err := DecodeDifferences(b); !errors.Is(err, ErrFormat) {
		t.Errorf("another version: %v", err)
	}
	for _, f := range Fields() {
		if strings.HasPrefix(f.String(), "field_") || f.String() == "" {
			t.Errorf("field %d has no name", f)
		}
	}
}

func FuzzDecodeDifferences(f *testing.F) {
	f.Add(appendDifferences(nil, now, []Difference{{Title, "a", "b"}}))
	f.Add([]byte{formatVersion, 0, 1, 200, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		at, all, err := DecodeDifferences(b)
		if err != nil {
			return
		}
		at2, again, err := DecodeDifferences(appendDifferences(nil, at, all))
		if err != nil || !at2.Equal(at) || !reflect.DeepEqual(again, all) {
			t.Errorf("%v %v reads back as %v %v, %v", at, all, at2, again, err)
		}
	})
}

func TestIsSampled(t *testing.T) {
	h := weburl.NewHasher(1)
	both, n := 0, [2]int{}
	for i := range 100_000 {
		k := weburl.Key{Host: h.HostID("x.test"), Hi: uint64(i) * 0x9e3779b97f4a7c15, Lo: uint64(i)}
		one, two := isSampled(k, 1), isSampled(k, 2)
		if one {
			n[0]++
		}
		if two {
			n[1]++
		}
		if one && two {
			both++
		}
	}
	for _, n := range n {
		if n < 800 || n > 1200 {
			t.Errorf("%d of 100,000 are verified", n)
		}
	}
	if both > 40 {
		t.Errorf("%d are verified in two generations", both)
	}
	for generation, want := range map[uint32]bool{0: false, 1: false, 9: false, 10: true, 20: true, 21: false} {
		if readsAll(generation) != want {
			t.Errorf("generation %d: %v", generation, !want)
		}
	}
}
