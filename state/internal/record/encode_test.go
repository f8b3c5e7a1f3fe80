package record

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/pace"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
)

// A recorder puts together the record that it is shown.
type recorder struct {
	parts   []PartHead
	rec     frontier.Record
	crashes map[weburl.Key]UncleanEnds
	closing []frontier.HostNotBefore
}

// collect makes a function of a visitor that appends to a list.
func collect[T any](list *[]T) func(T) error {
	return func(e T) error {
		*list = append(*list, e)
		return nil
	}
}

// decoded does the same with what decode makes of an element.
func decoded[D, T any](list *[]T, decode func(D) (T, error)) func(D) error {
	return func(d D) error {
		e, err := decode(d)
		*list = append(*list, e)
		return err
	}
}

// walk shows a record to v.
func (v *recorder) walk(b []byte) error {
	r := &v.rec
	link := func(l *LinkView) (frontier.Link, error) {
		link, err := DecodeDiscovery(l.Key, AppendDiscovery(nil, l))
		if l.Finish != nil && err == nil {
			link.Finish, err = DecodeFinish(weburl.Key{}, l.Finish)
		}
		link.At = frontier.Cursor{Priority: link.Priority, Index: uint32(l.Index)}
		link.Visit, link.Before = l.Visit, l.before
		return link, err
	}
	return Walk(b, &Visitor{
		Part: collect(&v.parts),
		Finish: func(s Stored) (err error) {
			r.Finish, err = DecodeFinish(s.Key, s.Value)
			return err
		},
		Link:  decoded(&r.Links, link),
		Visit: decoded(&r.Visits, link),
		Leased: func(l Lease) error {
			if l.Alone {
				r.Alone = append(r.Alone, l.Key)
			} else {
				r.Leased = append(r.Leased, l.Key)
			}
			return nil
		},
		Returned: collect(&r.Returned),
		Host:     decoded(&r.Hosts, func(s Stored) (frontier.HostFact, error) { return DecodeHost(s.Host, s.Value) }),
		Cursor:   collect(&r.Cursors),
		Origin: decoded(&r.Origins, func(s Stored) (frontier.OriginFact, error) {
			return (&Bodies{}).DecodeOrigin(s.Host, string(s.Origin), s.Value)
		}),
		Voucher: collect(&r.Vouchers), Skip: collect(&r.Skips), Evidence: collect(&r.Evidence),
		Named: collect(&r.Named),
		Fact:  collect(&r.Facts),
		InFlight: func(f InFlight) error {
			if v.crashes == nil {
				v.crashes = map[weburl.Key]UncleanEnds{}
			}
			v.crashes[f.Key] = f.UncleanEnds
			return nil
		},
		NotBefore: collect(&v.closing), Received: collect(&r.Marks),
		Sent: func(s Sent) error {
			switch {
			case s.Link != nil:
				link, err := DecodeDiscovery(s.Link.Key, AppendDiscovery(nil, s.Link))
				r.Sent = append(r.Sent, link)
				return err
			case s.Question != nil:
				r.Asked = append(r.Asked, *s.Question)
			case len(r.Sent) == 0:
				return ErrDecode
			default:
				l := &r.Sent[len(r.Sent)-1]
				l.Vouchers = append(l.Vouchers, s.Voucher)
			}
			return nil
		},
	})
}

func decodeRecord(t *testing.T, b []byte) frontier.Record {
	t.Helper()
	var v recorder
	if err := v.walk(b); err != nil {
		t.Fatal(err)
	}
	return v.rec
}

func key(n uint64) weburl.Key {
	return weburl.Key{Host: weburl.HostID(n << 32), Hi: n * 3, Lo: n * 7}
}

func ms(n int64) time.Time { return time.UnixMilli(n).UTC() }

// mustURL is the URL of a text, or none.
func mustURL(text string) weburl.URL {
	if text == "" {
		return weburl.URL{}
	}
	u, err := weburl.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// someRecords have all their parts in the order in which they are encoded.
func someRecords() map[string]frontier.Record {
	second := weburl.Key{Host: 9 << 56, Hi: 1, Lo: 2}
	return map[string]frontier.Record{
		"empty": {},
		"finish": {Finish: &frontier.Finish{
			Key: key(1), Outcome: 255, Counted: true, Status: 65535, Attempts: 65535, CheckedAt: ms(-5),
			Bytes: math.MaxUint64,
			Visit: math.MaxUint32, Generation: math.MaxUint32,
			Before:     frontier.Summary{Outcome: 255, Counted: true, Status: 65535, Bytes: math.MaxUint64},
			RedirectTo: "https://b.example/", Facts: []byte("facts"),
			KeepFacts: true, NotModified: true, Change: 255, ChangedAt: ms(-7), Changes: math.MaxUint32, Failures: 255,
			Differences: []byte("differences"),
		}},
		"unchanged": {
			Finish: &frontier.Finish{Key: key(1), Outcome: 1, Status: 200, Bytes: 7, Visit: 2,
				Before: frontier.Summary{Outcome: 1, Status: 200, Bytes: 7}, KeepFacts: true, NotModified: true,
				Change: 3},
		},
		"failed": {Finish: &frontier.Finish{Key: key(1), Outcome: 1, Visit: 2, Generation: 1, KeepFacts: true,
			Failures: 1, Facts: []byte("error")}},
		"changes": {Finish: &frontier.Finish{Key: key(1), Changes: 300}},
		"named": {Named: []frontier.Named{
			{Key: key(1), Listed: true, LastMod: ms(7), Generation: math.MaxUint32},
			{Key: key(2), Linked: true, Generation: 1}, {}, {Key: second, Listed: true, Linked: true},
		}},
		"finish of zeros": {Finish: &frontier.Finish{}},
		"links": {Links: []frontier.Link{
			{Key: key(1), URL: mustURL("https://a.example/x"), Depth: 65535, Priority: 255, Source: 255, Hops: 255,
				Parent: mustURL("https://a.example/"), Discovered: ms(1e12), LastMod: ms(0)},
			{Key: key(1), URL: mustURL("https://a.example/xy"), Parent: mustURL("https://a.example/"),
				Discovered: ms(1e12 - 1)},
			{Key: key(2), URL: mustURL("https://b.example/")},
			{Key: key(2), URL: mustURL("https://b.example/2"), Parent: mustURL("https://a.example/"), Discovered: ms(0),
				Finish: &frontier.Finish{Outcome: 3, Facts: []byte("why")}},
			{Key: second, URL: mustURL("https://c.example/")},
		}},
		"sitemaps": {
			Finish: &frontier.Finish{Key: key(1), Sitemap: true, Counted: true, Facts: []byte("f")},
			Links: []frontier.Link{
				{Key: key(3), URL: mustURL("https://a.example/s.xml"), Sitemap: true,
					Priority: frontier.PrioritySitemap, Depth: 4},
				{Key: key(4), URL: mustURL("https://a.example/")},
				{Key: key(5), URL: mustURL("https://a.example/t.xml"), Sitemap: true,
					Priority: frontier.PrioritySitemap, Finish: &frontier.Finish{Sitemap: true}},
			},
			Visits: []frontier.Link{{Key: key(6), Sitemap: true, Priority: frontier.PrioritySitemap, Visit: 3}},
			Vouchers: []frontier.Voucher{{Key: key(3), Host: math.MaxUint64, Visit: math.MaxUint32}, {Key: key(3)},
				{Key: second, Host: 1, Visit: 1}},
		},
		"visits": {
			Links: []frontier.Link{{Key: key(1), URL: mustURL("https://a.example/")}},
			Visits: []frontier.Link{
				{Key: key(1), Priority: 3, Visit: 2, Before: frontier.Summary{Outcome: 1, Status: 200, Bytes: 7,
					Counted: true}},
				{Key: key(2), Visit: math.MaxUint32},
				{Key: second, Visit: 2},
			},
		},
		"leases": {Leased: []weburl.Key{key(1), key(2), second}, Alone: []weburl.Key{key(2), second},
			Returned: []weburl.Key{key(3)}},
		"facts": {
			Hosts: []frontier.HostFact{{
				Host: 1, Name: "a.example", Blocked: true, Abandoned: true, Pages: 7, Run: math.MaxUint64,
				Row: pace.Row{Failures: 255, BackoffUntil: ms(4), Failed: []uint16{1, math.MaxUint16, 0},
					Forbidden: 254, Refusals: 253, AtCap: 252},
				Learned: pace.Learned{Delay: time.Second, Floor: time.Hour, FloorAt: ms(1), LastSuccess: ms(2),
					AskedUntil: ms(3)}, PagesGeneration: math.MaxUint32,
			}, {}},
			Cursors: []frontier.HostCursor{{Host: 1, Low: frontier.Cursor{Priority: 255, Position: math.MaxUint64,
				Index: math.MaxUint32}}, {}},
			Origins: []frontier.OriginFact{{
				Host: 1, Origin: "https://a.example", State: frontier.OriginAnswered, Status: 200, Fetched: ms(1),
				Expires:           ms(2),
				SitemapsRequested: true, SitemapsGeneration: math.MaxUint32, Body: []byte("rules"),
			}, {}},
			Facts: []frontier.CrawlFact{
				{Name: "status", Value: []byte("running")}, {Name: "empty", Value: []byte{}}, {Name: "gone"},
				{Partition: 255, Name: "status", Value: []byte("x")},
			},
		},
		"exchange": {
			Evidence: []frontier.Evidence{{Partition: 3, Kind: 4, Subject: math.MaxUint64,
				Words: []uint64{1, math.MaxUint64}}, {Partition: 200, Kind: 255}},
			Skips: []frontier.Skip{{Partition: 3, Reason: 255, Count: math.MaxUint64}, {Partition: 7},
				{Partition: 200, Reason: 1, Count: 1}},
			Marks: []frontier.Mark{{Partition: 3, Session: [16]byte{15: 1}, Batch: math.MaxUint64}, {Partition: 4}},
			Sent: []frontier.Link{
				{Key: key(1), URL: mustURL("https://a.example/x"), Depth: 3, Priority: 19, Source: 1, Hops: 2,
					Parent: mustURL("https://b.example/"), Discovered: ms(7), LastMod: ms(8)},
				{Key: second, URL: mustURL("https://c.example/")},
			},
			Asked: []frontier.RobotsQuestion{{Host: second.Host, URL: mustURL("https://c.example/robots.txt"),
				Origin: "http://d.example", Hops: 1}},
		},
		"handed over": {
			Sent: []frontier.Link{
				{
					Key: key(1), URL: mustURL("https://a.example/s.xml"), Sitemap: true,
					Priority: frontier.PrioritySitemap,
					Vouchers: []weburl.HostID{1, math.MaxUint64},
				},
				{Key: key(2), URL: mustURL("https://a.example/t"), Parent: mustURL("https://a.example/"),
					Discovered: ms(7)},
			},
			Asked: []frontier.RobotsQuestion{{Host: key(1).Host, URL: mustURL("https://a.example/robots.txt"),
				Origin: "http://d.example"}},
		},
		"large": {
			Finish: &frontier.Finish{Facts: []byte(strings.Repeat("f", 1<<14))},
			Links: []frontier.Link{{URL: mustURL("https://a/" + strings.Repeat("u", 1<<15)),
				Parent: mustURL("https://a/" + strings.Repeat("p", 1<<21))}},
		},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for name, r := range someRecords() {
		var v recorder
		if err := v.walk(Append([]byte{}, 77, &r, &Bodies{})); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(v.rec, r) {
			t.Errorf("%s: parts %v\n got %+v\nwant %+v", name, v.parts, v.rec, r)
		}
		for _, p := range v.parts {
			if p.Kind != KindEvents || p.Run != 77 {
				t.Errorf("%s: part %v", name, p)
			}
		}
	}
}

// A record is cut into one part for each partition, in which its links are counted from 0.
func TestParts(t *testing.T) {
	in := func(p uint8, n uint64) weburl.Key { return weburl.Key{Host: weburl.HostID(p) << 56, Lo: n} }
	r := frontier.Record{
		Finish: &frontier.Finish{Key: in(3, 1)},
		Links:  []frontier.Link{{Key: in(200, 1)}, {Key: in(3, 2)}, {Key: in(200, 2), Priority: 9}, {Key: in(0, 1)}},
		Leased: []weburl.Key{in(3, 3)},
		Facts:  []frontier.CrawlFact{{Partition: 7, Name: "n", Value: []byte("v")}},
	}
	for i := range r.Links {
		r.Links[i].URL = mustURL("https://a.example/")
	}
	var v recorder
	if err := v.walk(Append(nil, 1, &r, &Bodies{})); err != nil {
		t.Fatal(err)
	}
	var partitions []uint8
	for _, p := range v.parts {
		partitions = append(partitions, p.Partition)
	}
	if want := []uint8{0, 3, 7, 200}; !slices.Equal(partitions, want) {
		t.Errorf("parts of %v, want %v", partitions, want)
	}
	for i, want := range []frontier.Cursor{{}, {}, {Priority: 9, Index: 1}, {}} {
		if r.Links[i].At != want {
			t.Errorf("link %d is at %v, want %v", i, r.Links[i].At, want)
		}
	}
}

// TestRecordBytes pins the encoding: what was written must be read for ever.
func TestRecordBytes(t *testing.T) {
	r := frontier.Record{
		Finish: &frontier.Finish{
			Key: key(1), Outcome: 1, Counted: true, Status: 200, Attempts: 1, Visit: 2, Generation: 3, Bytes: 300,
			Before:    frontier.Summary{Outcome: 4, Counted: true, Status: 500, Bytes: 6},
			CheckedAt: ms(1000), RedirectTo: "r", Facts: []byte("f"),
		},
		Links: []frontier.Link{
			{Key: key(2), URL: mustURL("https://a/b"), Depth: 3, Priority: 4, Source: 5, Parent: mustURL("https://a/"),
				Discovered: ms(1000), LastMod: ms(500), Hops: 6},
			{Key: weburl.Key{Host: key(2).Host, Hi: 1, Lo: 2}, URL: mustURL("https://a/c"),
				Parent: mustURL("https://a/"), Discovered: ms(1001), Finish: &frontier.Finish{Outcome: 2}},
		},
		Visits: []frontier.Link{{Key: key(2), URL: mustURL("https://a/"), Visit: 2,
			Before: frontier.Summary{Outcome: 1, Status: 2, Bytes: 3}}},
		Leased:   []weburl.Key{key(5)},
		Returned: []weburl.Key{key(6)},
		Hosts: []frontier.HostFact{{
			Host: 7, Name: "a", Blocked: true, Learned: pace.Learned{Delay: time.Second, LastSuccess: ms(1)}, Pages: 2,
			Run: 9, Row: pace.Row{Failures: 3, BackoffUntil: ms(2), Failed: []uint16{0x0102}, Forbidden: 4, Refusals: 5,
				AtCap: 6},
		}},
		Cursors: []frontier.HostCursor{{Host: 7, Low: frontier.Cursor{Priority: 1, Position: 2, Index: 3}}},
		Origins: []frontier.OriginFact{{Host: 7, Origin: "o", State: frontier.OriginNone, Status: 404, Fetched: ms(1),
			Expires: ms(2), SitemapsRequested: true, Body: []byte("d")}},
		Facts: []frontier.CrawlFact{{Partition: 1, Name: "n", Value: []byte("v")}, {Partition: 1, Name: "gone"}},
	}
	const want = "0202" + "bc02" + "000009" + // version, parts; the first one's length, partition, kind, run
		"0101ad00" + "000000010000000000000000000000030000000000000007" + // finish, its key
		"020101" + "c801" + "01" + "02" + "03" + "ac02" + "0401f40306" + "d10f" + "0172" + "0166" +
		"0202b900" + "1c" + "0000000200000000" + "0000000000000006000000000000000e" + "0405" + "03" + // links
		"000b68747470733a2f2f612f62" + "0a68747470733a2f2f612f" + "d00f" + "e907" + "06" +
		"a500" + "27" + "00000000000000010000000000000002" + "0000" + "00" + "0a0163" + "02" + "8b00" +
		"0202000000000000000000" +
		// visits
		"0301a300" + "82" + "0000000200000000" + "0000000000000006000000000000000e" + "0000" + "00" + "0000" + "02" +
		"01000203" +
		"0401" + "1900" + "0000000500000000000000000000000f0000000000000023" + // leased
		"0501" + "18" + "00000006000000000000000000000012000000000000002a" + // returned
		"06019c00" + "0000000000000007" + "02" + "0161" + "01" + "d00f" + "00" + "00" + "03" + "00" + "04" + // hosts
		"03" + "05" + "09" + "040506" + "01" + "0102" +
		"07018b00" + "0000000000000007" + "010203" + // cursors
		"08019300" + "0000000000000007" + "016f" + "020201" + "9403" + "03" + "05" + "0164" + // origins
		"9500" + "010009" + // the second part
		"0d02" + "8500" + "016e" + "01" + "0176" + "8700" + "04676f6e65" + "00" + "00" // facts
	if got := hex.EncodeToString(Append(nil, 9, &r, &Bodies{})); got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
}

// Earlier writers gave the URL of a visit.
func TestVisitWithURL(t *testing.T) {
	want := frontier.Link{Key: key(2), URL: mustURL("https://a/"), Visit: 2,
		Before: frontier.Summary{Outcome: 1, Status: 2, Bytes: 3}}
	rec, part := beginPart(AppendHead(nil, 1), 0, KindEvents, 1)
	rec, body := BeginSized(beginSection(rec, tagVisits, 1))
	rec = EndSized(EndSized(appendLink(rec, &frontier.Link{}, &want), body), part)
	if got := decodeRecord(t, rec).Visits; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestChangeBytes pins the encoding of what a later visit says.
func TestChangeBytes(t *testing.T) {
	f := frontier.Finish{
		Key: key(1), Outcome: 1, Counted: true, Status: 200, Attempts: 1, Visit: 2, Generation: 1, Bytes: 300,
		CheckedAt: ms(1000),
		Before:    frontier.Summary{Outcome: 1, Counted: true, Status: 200, Bytes: 300},
		KeepFacts: true, NotModified: true, Change: 3,
	}
	const head = "0201" + "0f" + "c801" + "01" + "02" + "01" + "ac02" + "d10f" + "00" + "00"
	if got, want := hex.EncodeToString(appendFinish(nil, &f)), head+"03"; got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
	f.Failures, f.Changes, f.ChangedAt, f.Differences = 4, 300, ms(1), []byte("d")
	if got, want := hex.EncodeToString(appendFinish(nil, &f)), head+"03"+"04"+"ac02"+"03"+"0164"; got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
	r := frontier.Record{Named: []frontier.Named{{Key: key(1), Listed: true, Linked: true, LastMod: ms(1),
		Generation: 300}}}
	const want = "0201" + "a300" + "000009" + "0c01" + "9c00" + "000000010000000000000000000000030000000000000007" +
		"03" + "03" + "ac02"
	if got := hex.EncodeToString(Append(nil, 9, &r, &Bodies{})); got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
}

func TestOpenedRoundTrip(t *testing.T) {
	want := map[weburl.Key]UncleanEnds{key(1): {Count: 1}, key(2): {Count: 200, Alone: 1},
		{Host: 9 << 56}: {Count: 5, Alone: 2}}
	var v recorder
	if err := v.walk(AppendOpened(nil, 3, AllPartitions(), want)); err != nil {
		t.Fatal(err)
	}
	if len(v.parts) != Partitions || v.parts[255] != (PartHead{255, KindOpened, 3}) ||
		!reflect.DeepEqual(v.crashes, want) {
		t.Errorf("got %+v", v)
	}
	var closed PartitionSet
	closed.Add(9)
	v = recorder{}
	if err := v.walk(AppendClosed(nil, 3, closed, map[uint8]frontier.Closed{7: {At: ms(5),
		Hosts: []frontier.HostNotBefore{{Host: 7<<56 | 1, At: ms(9)}}}})); err != nil ||
		!slices.Equal(v.parts, []PartHead{{9, KindClosed, 3}}) {
		t.Errorf("got %+v, %v", v, err)
	}
}

// TestAddedFields reads what a later writer may have added fields to.
func TestAddedFields(t *testing.T) {
	rec, part := beginPart(AppendHead(nil, 1), 0, KindEvents, 1)
	rec, body := BeginSized(beginSection(rec, 1, 1))
	rec = appendFinish(key(1).Append(rec), &frontier.Finish{Facts: []byte("f"), Differences: []byte("d")})
	rec = EndSized(EndSized(append(rec, "a field of tomorrow"...), body), part)
	if got := decodeRecord(t, rec); string(got.Finish.Facts) != "f" {
		t.Errorf("got %+v", got.Finish)
	}
	value := append(appendHost(nil, &frontier.HostFact{Name: "a", PagesGeneration: 1}), "a field of tomorrow"...)
	if got, err := DecodeHost(1, value); err != nil || got.Name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
	// An earlier writer did not write what a host has done in a row.
	host := frontier.HostFact{Host: 1, Name: "a", Pages: 2}
	value = appendHost(nil, &host)
	value = value[:len(value)-len(appendRow(nil, &host))]
	if got, err := DecodeHost(1, value); err != nil || !reflect.DeepEqual(got, host) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNewerVersions(t *testing.T) {
	newer := func(b []byte) []byte {
		b[0] = Version + 1
		return b
	}
	err := Walk(newer(Append(nil, 1, &frontier.Record{}, &Bodies{})), &Visitor{})
	if e := wantErrAs[*disk.VersionError](t, err); e.Found != Version+1 || e.Known != Version {
		t.Errorf("got %+v", e)
	}
	_, err = DecodeFinish(key(1), newer(appendFinish(nil, &frontier.Finish{})))
	wantErrAs[*disk.VersionError](t, err)
	_, err = DecodeDiscovery(key(1), newer(AppendDiscovery(nil, &LinkView{})))
	wantErrAs[*disk.VersionError](t, err)
	var b BlockBuilder
	b.Add(1, &LinkView{})
	wantErrAs[*disk.VersionError](t, ReadBlock(1, 1, newer(b.Buf), nil))
}

// TestCutRecords cuts an encoding at every place.
func TestCutRecords(t *testing.T) {
	for name, r := range someRecords() {
		if name == "large" {
			continue
		}
		b := Append(nil, 1, &r, &Bodies{})
		for n := range b {
			// A cut between sections leaves a whole record.
			if err := (&recorder{}).walk(b[:n]); err != nil {
				wantErrAs[*disk.CorruptError](t, err)
			}
		}
	}
	rec, part := beginPart(AppendHead(nil, 1), 0, KindEvents, 1)
	if err := Walk(EndSized(append(rec, 99, 1, 0), part), &Visitor{}); err == nil {
		t.Error("an unknown section is passed over")
	}
}

func TestBlockRoundTrip(t *testing.T) {
	var b BlockBuilder
	for round := range 2 {
		b.Reset()
		var want []frontier.Link
		for i := range 20 {
			l := frontier.Link{
				Key: weburl.Key{Host: 9, Hi: uint64(i), Lo: uint64(round)},
				URL: mustURL("https://a.example/" + strings.Repeat("x", i%5)), Depth: uint16(i),
				Priority: 3, Source: uint8(i), Hops: uint8(i % 3), Repeats: uint8(i % 4),
				At: frontier.Cursor{Priority: 3, Position: frontier.Position(100 + i/3), Index: uint32(i)},
			}
			want = append(want, l)
			b.Add(l.At.Position, &LinkView{
				Key: l.Key, Index: int(l.At.Index), url: []byte(l.URL.String()), depth: l.Depth, Priority: 3,
				source: l.Source,
				hops:   l.Hops, repeats: l.Repeats,
			})
		}
		var got []frontier.Link
		if err := ReadBlock(9, 3, b.Buf, func(l *frontier.Link) bool {
			got = append(got, *l)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || b.Last != want[19].At || b.Count != 20 {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
}

func wantErrAs[E error](t *testing.T, got error) E {
	t.Helper()
	var e E
	if !errors.As(got, &e) {
		t.Fatalf("error %v, want a %T", got, e)
	}
	return e
}

// A queue holds either sitemaps or pages: a record that says otherwise is damaged.
func TestSitemapOfAnotherPriority(t *testing.T) {
	for _, l := range []frontier.Link{
		{Sitemap: true, Priority: frontier.PriorityStart}, {Priority: frontier.PrioritySitemap},
	} {
		l.Key, l.URL = key(1), mustURL("https://a.example/")
		r := frontier.Record{Links: []frontier.Link{l}}
		if err := (&recorder{}).walk(Append(nil, 1, &r, &Bodies{})); err == nil {
			t.Errorf("a link with priority %d, of a sitemap: %v, is read", l.Priority, l.Sitemap)
		}
	}
}

// TestVoucherBytes pins the encoding of sitemaps as links.
func TestVoucherBytes(t *testing.T) {
	r := frontier.Record{
		Links: []frontier.Link{{Key: key(1), URL: mustURL("https://a/s"), Sitemap: true,
			Priority: frontier.PrioritySitemap, Depth: 3}},
		Vouchers: []frontier.Voucher{{Key: key(1), Host: 5, Visit: 300}},
	}
	const want = "0201" + "d600" + "000009" + // version, parts; length, partition, kind, run
		"0201" + "a900" + "42" + "000000010000000000000000000000030000000000000007" + "0f00" + "03" + "00" +
		"0b68747470733a2f2f612f73" +
		"0901" + "a200" + "000000010000000000000000000000030000000000000007" + "0000000000000005" + "ac02"
	if got := hex.EncodeToString(Append(nil, 9, &r, &Bodies{})); got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
}
