package page

import (
	"encoding/json"
	"errors"
	"mime"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
)

func full() *Facts {
	return &Facts{
		Error: "e", RedirectTo: "https://x.test/y", ContentType: "text/html; charset=utf-8",
		ContentLength: new(int64(1234)), ContentHash: new(Hash(0xdeadbeef)),
		ResponseTime: new(Millis(1500 * time.Microsecond)), Title: "T", Description: "D", H1: "H", H1Count: new(2),
		MixedContent: []string{"http://x.test/i.png"}, Canonical: "https://x.test/", Language: "en",
		Hreflang:   []Alternate{{"de", "https://x.test/de"}, {"x-default", "https://x.test/"}},
		RobotsMeta: "noindex, follow", NoIndex: true,
		JSONLDTypes: []string{"Article", "Person"}, OpenGraph: map[string]string{"og:title": "o"}, WordCount: new(7),
		LinkCount:    new(0),
		LastModified: Time{time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}, ETag: `"abc"`,
		PublishedAt: Time{time.Date(2025, 12, 31, 3, 4, 5, 0, time.UTC)},
		Archived:    "2026-01-02T03:04:05.678901Z sha1:A",
		Robots: Robots{Checked: true, Allowed: true, Rule: "Allow: /", CrawlDelay: 2500 * time.Millisecond,
			Low: true, CheckedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		Extracted: Extracted{"price": []string{"1", "2"}, "sku": "z"}, Images: []string{"https://x.test/i.png"},
		Links: []Link{{To: "https://x.test/a", Rel: "nofollow", Text: "a", NoFollow: true},
			{To: "https://x.test/b", Fragment: "part"}}, IDs: []uint64{1, 7, 1 << 31}, Assets: []string{"https://x.test/i.png"}, Trap: "calendar",
		TextHash: new(Hash(7)), LastModifiedHeader: "Fri, 02 Jan 2026 03:04:05 GMT", NotLastMod: true,
		HeaderRules: "X-Robots-Tag: noarchive", SimHash: new(Hash(9)), SmallChanges: new(2),
		LeftOut: []uint64{1, 5, 300},
	}
}

func TestFactsRoundTrip(t *testing.T) {
	for name, want := range map[string]*Facts{"full": full(), "empty": {}} {
		got, err := Decode(want.Append(nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// Each fact has one number in the store.
func TestEveryFactIsStored(t *testing.T) {
	f := &Facts{}
	stored := map[any]bool{}
	for tag, fact := range f.byTag() {
		if tag > 0 && (fact == nil || stored[fact]) {
			t.Errorf("the number %d is of %v", tag, fact)
		}
		stored[fact] = true
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Facts]()) {
		if at := reflect.ValueOf(f).Elem().FieldByIndex(field.Index).Addr().Interface(); !stored[at] {
			t.Errorf("%s has no number", field.Name)
		}
		if reflect.ValueOf(full()).Elem().FieldByIndex(field.Index).IsZero() {
			t.Errorf("%s has no value in full(), so that no test stores and reads one", field.Name)
		}
	}
}

func TestDecodeStepsOverUnknownFieldsAndRefusesUnknownVersions(t *testing.T) {
	b := append((&Facts{Title: "T"}).Append(nil), 250, 2, 'x', 'y')
	if f, err := Decode(b); err != nil || f.Title != "T" {
		t.Errorf("with a later field: %+v, %v", f, err)
	}
	b[0] = formatVersion + 1
	if _, err := Decode(b); !errors.Is(err, ErrFormat) {
		t.Errorf("a later version: %v", err)
	}
}

func TestDecodeOfEveryPrefixIsSafe(t *testing.T) {
	b := full().Append(nil)
	for i := range b {
		if _, err := Decode(b[:i]); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("prefix of %d bytes: %v", i, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(full().Append(nil))
	f.Add([]byte{formatVersion, 24, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(facts.Append(nil))
		if err != nil {
			t.Fatalf("what was encoded again cannot be read: %v", err)
		}
		if !reflect.DeepEqual(facts.Append(nil), again.Append(nil)) {
			t.Fatalf("not stable:\n%+v\n%+v", facts, again)
		}
	})
}

func TestLine(t *testing.T) {
	l := Line{SchemaVersion: SchemaVersion, URL: weburl.MustCanonical("https://x.test/"), Source: "start", Outcome: OK.String(),
		CrawledAt: Time{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))}}
	l.SetFacts(full())
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"schema_version":1,"url":`, `"crawled_at":"2026-01-02T02:04:05.000Z"`, `"response_time_ms":1`,
		`"content_hash":"00000000deadbeef"`, `"link_count":0`,
		`"robots":{"evidence":"robots_allowed","rule":"Allow: /","crawl_delay":2.5,"confidence":"low","checked_at":"2026-01-01T00:00:00.000Z"}`,
		`"extracted":{"price":["1","2"],"sku":"z"}`, `"last_modified":"2026-01-02T03:04:05.678Z"`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	if strings.Contains(string(b), "discovered_at") {
		t.Errorf("an unknown time is written: %s", b)
	}
}

func TestIndexable(t *testing.T) {
	html := func(f Facts) *Facts { f.ContentType = "Text/HTML; charset=x"; return &f }
	types := []string{"text/html"}
	const u = "https://x.test/"
	for _, c := range []struct {
		name   string
		url    string
		o      Outcome
		status int
		f      *Facts
		reason string
	}{
		{"plain", u, OK, 200, html(Facts{}), ""},
		{"canonical to itself", u, OK, 200, html(Facts{Canonical: u}), ""},
		{"canonical elsewhere", u, OK, 200, html(Facts{Canonical: u + "a"}), NotCanon},
		{"noindex", u, OK, 200, html(Facts{NoIndex: true}), NotNoIndex},
		{"no content", u, OK, 204, html(Facts{}), NotStatus},
		{"pdf", u, OK, 200, &Facts{ContentType: "application/pdf"}, NotType},
		{"long", u + strings.Repeat("a", 2048), OK, 200, html(Facts{}), NotLength},
		{"404", u, HTTPError, 404, html(Facts{}), NotStatus},
		{"redirect", u, Redirect, 301, html(Facts{}), NotRedirect},
		{"robots", u, BlockedByRobots, 0, &Facts{}, NotRobots},
		{"pending", u, Pending, 0, &Facts{}, NotFetched},
		{"timeout", u, Timeout, 0, &Facts{}, NotReached},
	} {
		ok, reason := Indexable(c.url, c.o, c.status, c.f, types)
		if reason != c.reason || ok != (c.reason == "") {
			t.Errorf("%s: %v %q, want %q", c.name, ok, reason, c.reason)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	for _, o := range Outcomes() {
		if got, ok := ParseOutcome(o.String()); !ok || got != o {
			t.Errorf("%d: name %q reads back as %d", o, o, got)
		}
	}
}

func BenchmarkFacts(b *testing.B) {
	f := full()
	buf := f.Append(nil)
	b.Run("op=append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = f.Append(buf[:0])
		}
	})
	b.Run("op=decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// MediaType is what mime.ParseMediaType returns, and the same without the parameters that it refuses.
func TestMediaType(t *testing.T) {
	for text, want := range map[string]string{
		"text/html": "text/html", "text/html; charset=utf-8": "text/html", " Text/HTML ;charset=UTF-8": "text/html",
		"application/xhtml+xml;q=\"a;b\"": "application/xhtml+xml",
		"text/html; charset":              "text/html", "text/html;;": "text/html", "": "", ";": "", "text": "text",
		"text / html": "text / html",
	} {
		got := MediaType(text)
		if parsed, _, err := mime.ParseMediaType(text); got != want || err == nil && got != parsed {
			t.Errorf("%q: %q, want %q; package mime says %q (%v)", text, got, want, parsed, err)
		}
	}
}
