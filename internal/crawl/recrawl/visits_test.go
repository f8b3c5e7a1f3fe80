package recrawl

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/state"
)

// stored is a store with one page.
type stored struct {
	page  state.Page
	facts map[string][]byte
}

func (s *stored) Before(context.Context, weburl.Key, uint32) (state.Page, bool, error) {
	return s.page, true, nil
}

// isOutdated is for pages without their title.
func isOutdated(_ *frontier.Link, f *page.Facts) bool { return f.Title == "" }

// A page is asked for with conditions, unless there is a reason against it.
func TestWhenConditionsAreSent(t *testing.T) {
	reader := Reader([]string{"1", "links"})
	u := weburl.MustCanonical("http://x.test/a")
	for name, c := range map[string]struct {
		generation  string
		edit        func(*stored)
		how         Reading
		conditional bool
		verifies    bool
	}{
		"as it should be":         {"3", nil, 0, true, false},
		"its last answer was 304": {"3", func(s *stored) { s.page.Finish.NotModified = true }, 0, true, false},
		"its last answer now was 304": {"3", func(s *stored) {
			s.page.Finish.NotModified,
				s.page.Finish.Generation = true, 3
		}, 0, false, true},
		"it was visited now, with 200": {"3", func(s *stored) { s.page.Finish.Generation = 3 }, 0, true, false},
		"the 304 had other rules":      {"3", nil, ReadPage, false, true},
		"it was answered 304 unasked":  {"3", nil, ReadAround, false, false},
		"a tenth generation":           {"20", nil, 0, false, false},
		"another reader": {"3", func(s *stored) {
			s.facts["reader 1"] = []byte(Reader([]string{"2",
				"links"}))
		}, 0, false, false},
		"several readers": {"3", func(s *stored) {
			s.facts["reader 1"] = ReaderFact(s.facts, 1,
				"other").Value
		}, 0, false, false},
		"no reader": {"3", func(s *stored) { delete(s.facts, "reader 1") }, 0, false, false},
		"its host is not believed": {"3", func(s *stored) { s.facts["distrust x.test"] = []byte("2") }, 0, false,
			false},
		"another host is not believed": {"3", func(s *stored) { s.facts["distrust y.test"] = []byte("2") }, 0, true,
			false},
		"its links are outdated": {"3", func(s *stored) {
			s.page.Finish.Facts = (&page.Facts{ETag: `"v1"`, TextHash: new(page.Hash(1)),
				ContentHash: new(page.Hash(2))}).Append(nil)
		}, 0, false, false},
		"no validators": {"3", func(s *stored) { s.page.Finish.Facts = (&page.Facts{TextHash: new(page.Hash(1))}).Append(nil) }, 0, false, false},
	} {
		facts := page.Facts{Title: "T", ETag: `"v1"`, TextHash: new(page.Hash(1)), ContentHash: new(page.Hash(2))}
		s := &stored{
			page: state.Page{
				Link: frontier.Link{URL: u},
				Finish: &frontier.Finish{Outcome: uint8(page.OK), Status: 200, Visit: 5, Generation: 2,
					Facts: facts.Append(nil)}, FactsGeneration: 1,
			},
			facts: map[string][]byte{"generation": []byte(c.generation), "reader 1": []byte(reader)},
		}
		if c.edit != nil {
			c.edit(s)
		}
		v := NewVisits(s, s.facts, reader, isOutdated)
		link := frontier.Link{URL: u, Visit: 6, Key: weburl.NewHasher(1).Key(u)}
		if c.how != ReadNothing {
			v.ReadAgain(link.Key, c.how)
		}
		visit, err := v.Begin(t.Context(), &link)
		if err != nil {
			t.Fatal(err)
		}
		if visit.IsConditional() != c.conditional || visit.verifies != c.verifies || !visit.IsLater() {
			t.Errorf("%s: conditional %v, verifies %v, later %v", name, visit.IsConditional(), visit.verifies,
				visit.IsLater())
		}
		if want := string(s.facts["reader 1"]) != reader; visit.known.OtherReader != want ||
			!visit.HasNewText(&facts) && want {
			t.Errorf("%s: read by another reader: %v", name, visit.known.OtherReader)
		}
		if got := visit.Header.Get("If-None-Match") != ""; got != c.conditional {
			t.Errorf("%s: headers %v", name, visit.Header)
		}
		if got := visit.Header.Get("Cache-Control") == "no-cache"; got != (c.how == ReadAround) {
			t.Errorf("%s: headers %v", name, visit.Header)
		}
		// A lease may come back without a request: the address of its host is busy.
		if again, err := v.Begin(t.Context(), &link); err != nil || again.IsConditional() != visit.IsConditional() {
			t.Errorf("%s: the next lease asks in another way (%v)", name, err)
		}
		v.Finished(link.Key)
		if again, err := v.Begin(t.Context(), &link); err != nil || c.how != ReadNothing &&
			!again.IsConditional() {
			t.Errorf("%s: the way to ask is not forgotten after the page is finished (%v)", name, err)
		}
	}
}

// In the first crawl an answer 304, which nothing asked for, is asked for once more, around caches.
func TestUnaskedNotModified(t *testing.T) {
	v := NewVisits(&stored{}, nil, "", isOutdated)
	link := frontier.Link{URL: weburl.MustCanonical("http://x.test/a"), Visit: 1}
	for try := range 2 {
		visit, err := v.Begin(t.Context(), &link)
		if err != nil {
			t.Fatal(err)
		}
		verdict := visit.Judge(&Answer{Outcome: page.HTTPError, Status: http.StatusNotModified,
			Facts: page.Facts{}, At: time.Now()})
		if try == 0 {
			if verdict.ReadAgain != ReadAround {
				t.Fatalf("%+v", verdict)
			}
			v.ReadAgain(link.Key, verdict.ReadAgain)
		} else if verdict.ReadAgain != ReadNothing || verdict.Outcome != page.HTTPError ||
			verdict.Status != http.StatusNotModified {
			t.Errorf("the second time: %+v", verdict)
		}
	}
}

// The first answers 304 of each host are verified, and of the others one in a hundred.
func TestSample(t *testing.T) {
	v := NewVisits(&stored{}, map[string][]byte{"generation": []byte("1")}, "", isOutdated)
	for host := range weburl.HostID(2) {
		n := 0
		for i := range uint64(10_000) {
			verify := v.MustVerify(weburl.Key{Host: host, Hi: i, Lo: i * i})
			if i < verifyFirst && !verify {
				t.Errorf("answer %d of a host is not verified", i)
			}
			if verify {
				n++
			}
		}
		if n < 60 || n > 160 {
			t.Errorf("%d of 10000 are verified", n)
		}
	}
}

// Once a host is distrusted, nothing is recorded for it.
func TestDistrust(t *testing.T) {
	v := NewVisits(&stored{}, map[string][]byte{"generation": []byte("1")}, "", isOutdated)
	recorded := 0
	record := func() error { recorded++; return nil }
	if ok, err := v.RecordNotModified("x.test", record); !ok || err != nil || recorded != 1 {
		t.Errorf("recorded %d: %v, %v", recorded, ok, err)
	}
	if !v.Distrust("x.test") || v.Distrust("x.test") {
		t.Error("that the first distrust is new, and the second is not, is not reported")
	}
	if ok, err := v.RecordNotModified("x.test", record); ok || err != nil || recorded != 1 {
		t.Errorf("recorded %d after the host is distrusted: %v, %v", recorded, ok, err)
	}
	if !v.trusts("y.test") || v.trusts("x.test") {
		t.Error("the wrong host is distrusted")
	}
}

// A body that is the same as before confirms a 304 of the sample, and nothing else does.
func TestConfirms(t *testing.T) {
	var sampled, other weburl.Key
	for sampled.Lo = 1; !isSampled(sampled, 3); sampled.Lo++ {
		other = sampled
	}
	known := &Known{Facts: &page.Facts{ContentHash: new(page.Hash(2))}}
	for name, c := range map[string]struct {
		visit Visit
		key   weburl.Key
		hash  *page.Hash
		want  bool
	}{
		"the same body":                 {Visit{known: known, verifies: true}, sampled, new(page.Hash(2)), true},
		"another body":                  {Visit{known: known, verifies: true}, sampled, new(page.Hash(3)), false},
		"no body":                       {Visit{known: known, verifies: true}, sampled, nil, false},
		"not of the sample":             {Visit{known: known, verifies: true}, other, new(page.Hash(2)), false},
		"a visit that verifies nothing": {Visit{known: known}, sampled, new(page.Hash(2)), false},
		"a first visit":                 {Visit{verifies: true}, sampled, new(page.Hash(2)), false},
	} {
		c.visit.generation = 3
		if got := c.visit.Confirms(c.key, &page.Facts{ContentHash: c.hash}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
