package recrawl

import (
	"github.com/mapwright/mapwright/internal/page"
	"net/http"
	"reflect"
	"testing"
	"time"
)

var (
	now     = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	earlier = now.Add(-7 * 24 * time.Hour)
)

// read are the facts of a page with a text, and what a test changes of them.
func read(text uint64, change ...func(*page.Facts)) *page.Facts {
	f := &page.Facts{
		ContentType: "text/html; charset=utf-8", ContentLength: new(int64(100)), ContentHash: new(page.Hash(text * 31)),
		TextHash: new(page.Hash(text)), Title: "Lamp", WordCount: new(120),
		ETag: `"v1"`, LastModifiedHeader: "Sun, 01 Feb 2026 10:00:00 GMT",
		LastModified: page.Time{Time: time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC)},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

func ok(f *page.Facts) *Known { return &Known{Outcome: page.OK, Status: 200, Facts: f} }

func otherReader(f *page.Facts) *Known {
	return &Known{Outcome: page.OK, Status: 200, Facts: f, OtherReader: true}
}

func answer(f *page.Facts) *Answer {
	return &Answer{Outcome: page.OK, Status: 200, At: now, Facts: *f}
}

func failed(o page.Outcome, status int) *Answer {
	return &Answer{Outcome: o, Status: status, At: now, Facts: page.Facts{Error: "what went wrong"}}
}

func TestJudgeChanges(t *testing.T) {
	pdf := func(etag, header string, length int64) *page.Facts {
		f := &page.Facts{ContentType: "application/pdf", ETag: etag, ContentLength: &length}
		TakeHeaders(f, http.Header{"Last-Modified": {header}}, now)
		f.ETag = etag
		return f
	}
	gone := &Known{Outcome: page.HTTPError, Status: 404, Facts: &page.Facts{}}
	moved := &page.Facts{RedirectTo: "https://x.test/new"}
	for name, c := range map[string]struct {
		known  *Known
		now    *Answer
		change page.Change
		fields []Field
		keep   bool
	}{
		"new":                {nil, answer(read(1)), page.New, []Field{Outcome, StatusCode, Title}, false},
		"new, and not there": {nil, failed(page.HTTPError, 404), page.New, []Field{Outcome, StatusCode}, false},
		"the same":           {ok(read(1)), answer(read(1)), page.Unchanged, nil, true},
		"another text":       {ok(read(1)), answer(read(2)), page.Changed, []Field{TextHash}, false},
		"tokens in the markup": {ok(read(1)), answer(read(1,
			func(f *page.Facts) { f.ContentHash = new(page.Hash(9)) })), page.Unchanged, nil, false},
		"another response time": {ok(read(1)), answer(read(1,
			func(f *page.Facts) { f.ResponseTime = new(page.Millis(9)) })), page.Unchanged, nil, true},
		"title only": {ok(read(1)), answer(read(1, func(f *page.Facts) { f.Title = "Desk lamp" })),
			page.Changed, []Field{Title}, false},
		"canonical only": {ok(read(1)), answer(read(1,
			func(f *page.Facts) { f.Canonical = "https://x.test/c" })), page.Changed, []Field{CanonicalURL}, false},
		"noindex": {ok(read(1)), answer(read(1, func(f *page.Facts) { f.NoIndex = true })),
			page.Changed, []Field{NoIndex}, false},
		"404": {ok(read(1)), failed(page.HTTPError, 404), page.Gone, []Field{Outcome, StatusCode},
			false},
		"410": {ok(read(1)), failed(page.HTTPError, 410), page.Gone, []Field{Outcome, StatusCode},
			false},
		"a redirect that is gone": {&Known{Outcome: page.Redirect, Status: 301, Facts: moved},
			failed(page.HTTPError, 404), page.Gone, []Field{Outcome, StatusCode, RedirectTo}, false},
		"403 is not gone": {ok(read(1)), failed(page.HTTPError, 403), page.Changed,
			[]Field{Outcome, StatusCode}, false},
		"blocked is not gone": {ok(read(1)), failed(page.BlockedByRobots, 0), page.Changed,
			[]Field{Outcome, StatusCode}, false},
		"still gone": {gone, &Answer{Outcome: page.HTTPError, Status: 404, At: now, Facts: page.Facts{}},
			page.Unchanged, nil, true},
		"gone in another way": {gone, failed(page.HTTPError, 410), page.Changed, []Field{StatusCode}, false},
		"back":                {gone, answer(read(1)), page.Back, []Field{Outcome, StatusCode, Title}, false},
		"redirects now": {ok(read(1)), &Answer{Outcome: page.Redirect, Status: 301, At: now, Facts: *moved},
			page.Changed, []Field{Outcome, StatusCode, RedirectTo}, false},
		"redirects elsewhere": {&Known{Outcome: page.Redirect, Status: 301,
			Facts: &page.Facts{RedirectTo: "https://x.test/a"}},
			&Answer{Outcome: page.Redirect, Status: 301, At: now, Facts: *moved}, page.Changed, []Field{RedirectTo},
			false},
		"another type": {ok(read(1)), answer(pdf(`"a"`, "", 9)), page.Changed, []Field{Title, ContentType},
			false},
		"no text hash before": {ok(read(1, func(f *page.Facts) { f.TextHash = nil })), answer(read(2)),
			page.Unchanged, nil, false},
		"another reader": {otherReader(read(1)), answer(read(1,
			func(f *page.Facts) { f.TextHash = new(page.Hash(7)) })), page.Unchanged, nil, false},
		"another reader and page": {otherReader(read(1)), answer(read(2)), page.Changed, []Field{TextHash}, false},
		"document, another tag": {ok(pdf(`"a"`, "", 9)), answer(pdf(`"b"`, "", 9)), page.Changed, []Field{ETag},
			false},
		"document, the same tag": {ok(pdf(`"a"`, "", 9)), answer(pdf(`"a-gzip"`, "", 10)), page.Unchanged, nil,
			false},
		"document, weak tags": {ok(pdf(`W/"a"`, "", 9)), answer(pdf(`W/"b"`, "", 9)), page.Unchanged, nil, false},
		"document, another date": {ok(pdf(`W/"a"`, "Sun, 01 Feb 2026 10:00:00 GMT", 9)),
			answer(pdf("", "Mon, 02 Feb 2026 10:00:00 GMT", 9)), page.Changed, []Field{LastModified}, false},
		"document, dates are now": {ok(pdf("", "Sun, 01 Mar 2026 12:00:00 GMT", 9)),
			answer(pdf("", now.Format(http.TimeFormat), 9)), page.Unchanged, nil, false},
		"document, another length": {ok(pdf("", "", 9)), answer(pdf("", "", 10)), page.Changed, []Field{ContentLength},
			false},
		"document, as it was": {ok(pdf("", "", 9)), answer(pdf("", "", 9)), page.Unchanged, nil, true},
		"answers again": {&Known{Outcome: page.Timeout, Facts: &page.Facts{Error: "late"}}, answer(read(1)),
			page.Changed, []Field{Outcome, StatusCode, Title}, false},
		"fails in another way": {&Known{Outcome: page.Timeout, Facts: &page.Facts{Error: "late"}},
			failed(page.DNSError, 0), page.Changed, []Field{Outcome}, false},
		"304 to a plain request": {ok(read(1)), &Answer{Outcome: page.HTTPError, Status: 304, At: now, NoCache: true,
			Facts: page.Facts{}}, page.Changed, []Field{Outcome, StatusCode}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.known != nil {
				c.known.ChangedAt, c.known.Changes = earlier, 4
			}
			v := Judge(c.known, c.now)
			if v.ReadAgain != ReadNothing || v.Change != c.change || v.KeepFacts != c.keep {
				t.Errorf("read again %d, change %q, keep %v; want %q, %v", v.ReadAgain, v.Change, v.KeepFacts, c.change,
					c.keep)
			}
			if v.Outcome != c.now.Outcome || v.Status != c.now.Status || !c.keep && v.Facts != &c.now.Facts {
				t.Errorf("records %v %d", v.Outcome, v.Status)
			}
			var fields []Field
			if len(v.Differences) > 0 {
				at, all, err := DecodeDifferences(v.Differences)
				if err != nil || !at.Equal(now) {
					t.Fatalf("at %v: %v", at, err)
				}
				for _, d := range all {
					fields = append(fields, d.Field)
				}
			}
			if !reflect.DeepEqual(fields, c.fields) {
				t.Errorf("differences in %v, want %v", fields, c.fields)
			}
			changedAt, changes := time.Time{}, uint32(0)
			if c.known != nil {
				changedAt, changes = earlier, 4
			}
			if c.change != page.Unchanged && c.change != page.New {
				changedAt, changes = now, 5
			}
			if !v.ChangedAt.Equal(changedAt) || v.Changes != changes {
				t.Errorf("changed at %v, %d changes; want %v, %d", v.ChangedAt, v.Changes, changedAt, changes)
			}
		})
	}
}

// A failure that may pass keeps what is known, three times in a row; then it is recorded.
func TestJudgeFailures(t *testing.T) {
	for name, fail := range map[string]func() *Answer{
		"timeout": func() *Answer { return failed(page.Timeout, 0) },
		"dns":     func() *Answer { return failed(page.DNSError, 0) },
		"connect": func() *Answer { return failed(page.ConnectError, 0) },
		"tls":     func() *Answer { return failed(page.TLSError, 0) },
		"cut off": func() *Answer { return failed(page.ReadError, 200) },
		"500":     func() *Answer { return failed(page.HTTPError, 500) },
		"503":     func() *Answer { return failed(page.HTTPError, 503) },
		"429":     func() *Answer { return failed(page.Throttled, 429) },
		"robots.txt": func() *Answer {
			return &Answer{Outcome: page.BlockedByRobots, At: now,
				Facts: page.Facts{Robots: page.Robots{Checked: true, Low: true}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := &Known{Outcome: page.Redirect, Status: 301, Facts: &page.Facts{RedirectTo: "https://x.test/b"},
				ChangedAt: earlier, Changes: 2}
			for i := range uint8(3) {
				v := Judge(known, fail())
				if !v.KeepFacts || v.Outcome != page.Redirect || v.Status != 301 ||
					v.RedirectTo != "https://x.test/b" || v.Failures != i+1 || v.Change != page.NoChange ||
					len(v.Differences) > 0 {
					t.Fatalf("failure %d: %+v", i+1, v)
				}
				if v.Facts == nil || v.Facts.Error == "" || !v.ChangedAt.Equal(earlier) || v.Changes != 2 {
					t.Fatalf("failure %d: %+v", i+1, v)
				}
				known.Failures = v.Failures
			}
			again := Judge(known, &Answer{Outcome: page.Redirect, Status: 301, At: now,
				Facts: page.Facts{RedirectTo: "https://x.test/b"}})
			if again.Failures != 0 || again.Change != page.Unchanged || !again.KeepFacts {
				t.Errorf("an answer after failures: %+v", again)
			}
			if v := Judge(known, fail()); v.KeepFacts || v.Outcome != fail().Outcome || v.Failures != 0 ||
				v.Change != page.Changed {
				t.Errorf("the fourth failure: %+v", v)
			}
		})
	}
}

func TestJudgeNotModified(t *testing.T) {
	rules := "x-robots-tag: noarchive\nlink: <https://x.test/>; rel=canonical"
	for name, c := range map[string]struct {
		change func(*page.Facts) // of what is known
		header http.Header
		again  Reading
	}{
		"plain":      {nil, http.Header{"Etag": {`"v1"`}}, ReadNothing},
		"no headers": {nil, http.Header{}, ReadNothing},
		"the same rules": {func(f *page.Facts) { f.HeaderRules = rules },
			http.Header{"X-Robots-Tag": {"noarchive"},
				"Link": {"</a,b.css>; rel=preload, <https://x.test/>; rel=canonical"}}, ReadNothing},
		"rules are not repeated": {func(f *page.Facts) { f.HeaderRules = rules }, http.Header{}, ReadPage},
		"another X-Robots-Tag": {func(f *page.Facts) { f.HeaderRules = rules },
			http.Header{"X-Robots-Tag": {"noindex"}}, ReadPage},
		"a new X-Robots-Tag": {nil, http.Header{"X-Robots-Tag": {"noindex"}}, ReadPage},
		"another canonical link": {func(f *page.Facts) { f.HeaderRules = rules },
			http.Header{"Link": {"<https://x.test/b>; rel=canonical"}}, ReadPage},
		"a link that is not canonical":   {nil, http.Header{"Link": {"</b.css>; rel=preload"}}, ReadNothing},
		"another tag":                    {nil, http.Header{"Etag": {`"v2"`}}, ReadNothing},
		"the tag of the compressed page": {nil, http.Header{"Etag": {`"v1-gzip"`}}, ReadNothing},
		"a date that moved": {nil, http.Header{"Last-Modified": {"Mon, 02 Mar 2026 10:00:00 GMT"}},
			ReadPage},
		"a date that is not believed": {func(f *page.Facts) { f.NotLastMod, f.LastModified = true, page.Time{} },
			http.Header{"Last-Modified": {"Mon, 02 Mar 2026 10:00:00 GMT"}}, ReadNothing},
		"a date that was new at its time": {func(f *page.Facts) { f.LastModified = page.Time{} }, http.Header{},
			ReadPage},
		"an end of small changes": {func(f *page.Facts) { f.SmallChanges = new(2) }, http.Header{}, ReadPage},
	} {
		t.Run(name, func(t *testing.T) {
			known := ok(read(1))
			if c.change != nil {
				c.change(known.Facts)
			}
			known.ChangedAt, known.Changes, known.Failures = earlier, 1, 2
			v := Judge(known, &Answer{Status: 304, At: now, Header: c.header, Facts: page.Facts{}, Conditional: true})
			if v.ReadAgain != c.again {
				t.Fatalf("read again: %d, want %d", v.ReadAgain, c.again)
			}
			if c.again != ReadNothing {
				return
			}
			if !v.NotModified || v.Change != page.Unchanged || v.Outcome != page.OK || v.Status != 200 ||
				v.Failures != 0 || !v.ChangedAt.Equal(earlier) || v.Changes != 1 {
				t.Errorf("%+v", v)
			}
			if !v.KeepFacts || v.Facts != nil { // else it would count as read in this generation
				t.Errorf("writes %+v", v.Facts)
			}
		})
	}
	if v := Judge(ok(read(1)), &Answer{Outcome: page.HTTPError, Status: 304, At: now,
		Facts: page.Facts{}}); v.ReadAgain != ReadAround {
		t.Errorf("a 304 to a plain request: %+v", v)
	}
}

// A server that refuses the conditions of a request says nothing of the page.
func TestJudgeRefusedConditions(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusPreconditionFailed,
		http.StatusRequestHeaderFieldsTooLarge} {
		now := failed(page.HTTPError, status)
		now.Conditional = true
		if v := Judge(ok(read(1)), now); v.ReadAgain != ReadAround {
			t.Errorf("%d to a request with conditions: %+v", status, v)
		}
		now.Conditional = false
		if v := Judge(ok(read(1)), now); v.ReadAgain != ReadNothing || v.Change != page.Changed || v.Status != status {
			t.Errorf("%d to a plain request: %+v", status, v)
		}
	}
}

// A visit that asks whether a 304 was true finds that it was, or not, or cannot tell.
func TestJudgeVerifies(t *testing.T) {
	for name, c := range map[string]struct {
		now     *Answer
		isFalse bool
		change  page.Change
	}{
		"true":              {answer(read(1)), false, page.Unchanged},
		"false":             {answer(read(2)), true, page.Changed},
		"gone":              {failed(page.HTTPError, 404), true, page.Gone},
		"cannot tell":       {failed(page.HTTPError, 503), false, page.Unchanged},
		"other titles":      {answer(read(1, func(f *page.Facts) { f.Title = "T" })), true, page.Changed},
		"moved":             {failed(page.Redirect, 301), true, page.Changed},
		"may not be listed": {answer(read(1, func(f *page.Facts) { f.NoIndex = true })), true, page.Changed},
		"more links":        {answer(read(1, func(f *page.Facts) { f.LinkCount = new(2) })), true, page.Unchanged},
		"other rules, which the 304 said": {answer(read(1, func(f *page.Facts) {
			f.NoIndex, f.HeaderRules = true, "x-robots-tag: noindex"
		})), false, page.Changed},
		"refused":                 {failed(page.HTTPError, 403), false, page.Changed},
		"too large":               {failed(page.TooLarge, 200), false, page.Changed},
		"forbidden by robots.txt": {failed(page.BlockedByRobots, 0), false, page.Changed},
	} {
		c.now.Verifies = true
		v := Judge(ok(read(1, func(f *page.Facts) { f.LinkCount = new(1) })), c.now)
		if v.FalseNotModified != c.isFalse || v.Change != c.change || v.Failures != 0 {
			t.Errorf("%s: %+v", name, v)
		}
		if f := v.Record(c.now); f.NotModified != (name == "cannot tell") {
			t.Errorf("%s: recorded as answered 304: %v", name, f.NotModified)
		}
	}
	other := ok(read(1, func(f *page.Facts) { f.LinkCount = new(1) }))
	other.OtherReader = true
	reading := answer(read(1, func(f *page.Facts) { f.LinkCount, f.NoIndex = new(2), true }))
	document := func(date int) *page.Facts {
		return &page.Facts{ContentType: "application/pdf", LastModified: page.Time{Time: time.Unix(int64(date), 0)}}
	}
	reading.Verifies = true
	dated := answer(document(2))
	dated.Verifies = true
	if Judge(other, reading).FalseNotModified || Judge(ok(document(1)), dated).FalseNotModified {
		t.Error("a page that is read in another way, or the date of a document, says that a 304 was false")
	}
	if v := Judge(ok(read(1)), answer(read(2))); v.FalseNotModified {
		t.Error("a plain visit says that a 304 was false")
	}
}

// The text differs a little at each visit: after three such changes in a row the page is volatile, until it stays.
func TestVolatile(t *testing.T) {
	known := ok(read(1))
	visit := func(text, sim uint64) {
		t.Helper()
		v := Judge(known, answer(read(text, func(f *page.Facts) { f.SimHash = new(page.Hash(sim)) })))
		if !v.KeepFacts {
			known = ok(v.Facts)
		}
	}
	for i, c := range []struct {
		text, sim uint64
		volatile  bool
	}{
		{2, 0b000, false}, // the first crawl computed no simhash
		{3, 0b111, false}, {4, 0b110, false}, {5, 0b110, true}, {6, 0b101, true},
		{6, 0b101, false}, {7, 0b101, false}, {8, 0xffff, false}, {9, 0xffff, false}, {10, 0xffff, false},
		{11, 0xffff, true}, {12, 0, false},
	} {
		visit(c.text, c.sim)
		if known.Facts.Volatile() != c.volatile {
			t.Errorf("visit %d: volatile is %v, want %v", i, known.Facts.Volatile(), c.volatile)
		}
	}
}

// A Last-Modified header that moves while the text stays is never believed again; what the page says is.
func TestMovedLastModified(t *testing.T) {
	own := time.Date(2025, 5, 5, 0, 0, 0, 0, time.UTC)
	moved := func(text uint64) *Answer {
		a := answer(read(text, func(f *page.Facts) {
			f.LastModifiedHeader, f.LastModified = "Mon, 02 Mar 2026 10:00:00 GMT",
				page.Time{Time: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)}
		}))
		a.Modified = own
		return a
	}
	if v := Judge(ok(read(1)), moved(2)); v.Facts.NotLastMod || v.Facts.LastModified.Equal(own) {
		t.Errorf("with another text: %+v", v.Facts)
	}
	v := Judge(ok(read(1)), moved(1))
	if v.KeepFacts || !v.Facts.NotLastMod || !v.Facts.LastModified.Equal(own) || v.Change != page.Unchanged {
		t.Fatalf("with the same text: %+v", v)
	}
	if v = Judge(ok(v.Facts), moved(2)); !v.Facts.NotLastMod || !v.Facts.LastModified.Equal(own) {
		t.Errorf("later: %+v", v.Facts)
	}
}

func TestRecord(t *testing.T) {
	a := answer(read(2))
	v := Judge(ok(read(1)), a)
	f := v.Record(a)
	known, err := KnownFrom(f)
	if err != nil {
		t.Fatal(err)
	}
	want := &Known{Outcome: page.OK, Status: 200, Facts: read(2), CheckedAt: now, ChangedAt: now, Changes: 1}
	if !reflect.DeepEqual(known, want) || f.Change != uint8(page.Changed) || f.KeepFacts || len(f.Differences) == 0 {
		t.Errorf("recorded %+v\nread %+v", f, known)
	}
}
