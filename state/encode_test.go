package state

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A recorder puts together the record that it is shown.
type recorder struct {
	kind    byte
	epoch   uint64
	rec     Record
	crashes map[urlnorm.Key]int
}

func (v *recorder) head(kind byte, epoch uint64) error {
	v.kind, v.epoch = kind, epoch
	return nil
}

func (v *recorder) finish(k urlnorm.Key, value []byte) (err error) {
	v.rec.Finish, err = decodeFinish(k, value)
	return err
}

func (v *recorder) link(_ int, l *linkView) error {
	value := appendDiscovery(nil, l)
	link, err := decodeDiscovery(l.key, value)
	v.rec.Links = append(v.rec.Links, link)
	return err
}

func (v *recorder) leased(k urlnorm.Key) error {
	v.rec.Leased = append(v.rec.Leased, k)
	return nil
}

func (v *recorder) returned(k urlnorm.Key) error {
	v.rec.Returned = append(v.rec.Returned, k)
	return nil
}

func (v *recorder) host(h urlnorm.HostID, value []byte) error {
	f, err := decodeHost(h, value)
	v.rec.Hosts = append(v.rec.Hosts, f)
	return err
}

func (v *recorder) cursor(h urlnorm.HostID, low Cursor) error {
	v.rec.Cursors = append(v.rec.Cursors, HostCursor{h, low})
	return nil
}

func (v *recorder) robots(origin, value []byte) error {
	f, err := decodeRobots(string(origin), value)
	v.rec.Robots = append(v.rec.Robots, f)
	return err
}

func (v *recorder) run(name, value []byte, set bool) error {
	f := RunFact{Name: string(name)}
	if set {
		f.Value = append([]byte{}, value...)
	}
	v.rec.Run = append(v.rec.Run, f)
	return nil
}

func (v *recorder) crashed(k urlnorm.Key, n int) error {
	if v.crashes == nil {
		v.crashes = map[urlnorm.Key]int{}
	}
	v.crashes[k] = n
	return nil
}

func decodeRecord(t *testing.T, b []byte) Record {
	t.Helper()
	var v recorder
	if err := walk(b, &v); err != nil {
		t.Fatal(err)
	}
	return v.rec
}

func key(n uint64) urlnorm.Key {
	return urlnorm.Key{Host: urlnorm.HostID(n << 32), Hi: n * 3, Lo: n * 7}
}

func ms(n int64) time.Time { return time.UnixMilli(n).UTC() }

func someRecords() map[string]Record {
	return map[string]Record{
		"empty": {},
		"finish": {Finish: &Finish{
			Key: key(1), Outcome: 255, Status: 65535, Attempts: 65535, CrawledAt: ms(1), Bytes: math.MaxUint64,
			RedirectTo: "https://b.example/", Generation: math.MaxUint32, NextFetch: ms(-5), Facts: []byte("facts"),
		}},
		"finish of zeros": {Finish: &Finish{}},
		"links": {Links: []Link{
			{Key: key(1), URL: "https://a.example/x", Depth: 65535, Priority: 255, Source: 255, Parent: "https://a.example/", DiscoveredAt: ms(1e12), LastMod: ms(0), Extra: []byte{0}},
			{Key: key(1), URL: "https://a.example/xy", Parent: "https://a.example/", DiscoveredAt: ms(1e12 - 1)},
			{Key: key(2), URL: "https://b.example/", Parent: ""},
			{Key: key(2), URL: "", Parent: "https://a.example/", DiscoveredAt: ms(0)},
			{},
		}},
		"leases": {Leased: []urlnorm.Key{key(1), key(2)}, Returned: []urlnorm.Key{key(3)}},
		"facts": {
			Hosts:   []HostFact{{Host: 1, Name: "a.example", Data: []byte("pace")}, {}},
			Cursors: []HostCursor{{Host: 1, Low: Cursor{255, math.MaxUint64, math.MaxUint32}}, {}},
			Robots:  []RobotsFact{{Origin: "https://a.example", FetchedAt: ms(1), Expires: ms(2), Data: []byte("rules")}, {}},
			Run:     []RunFact{{Name: "status", Value: []byte("running")}, {Name: "empty", Value: []byte{}}, {Name: "gone"}},
		},
		"large": {
			Finish: &Finish{Facts: []byte(strings.Repeat("f", 1<<14))},
			Links:  []Link{{URL: strings.Repeat("u", 1<<15), Parent: strings.Repeat("p", 1<<21)}},
		},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for name, r := range someRecords() {
		var v recorder
		if err := walk(appendRecord([]byte{}, 77, &r), &v); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.kind != kindEvents || v.epoch != 77 || !reflect.DeepEqual(v.rec, r) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, v.rec, r)
		}
	}
}

// TestRecordBytes pins the encoding: what was written must be read for ever.
func TestRecordBytes(t *testing.T) {
	r := Record{
		Finish: &Finish{Key: key(1), Outcome: 1, Status: 200, Attempts: 1, Generation: 2, Bytes: 300, CrawledAt: ms(1000), NextFetch: ms(2000), RedirectTo: "r", Facts: []byte("f")},
		Links: []Link{
			{Key: key(2), URL: "https://a/b", Depth: 3, Priority: 4, Source: 5, Parent: "https://a/", DiscoveredAt: ms(1000), LastMod: ms(500), Extra: []byte("e")},
			{Key: urlnorm.Key{Host: key(2).Host, Hi: 1, Lo: 2}, URL: "https://a/c", Parent: "https://a/", DiscoveredAt: ms(1001)},
		},
		Leased:   []urlnorm.Key{key(5)},
		Returned: []urlnorm.Key{key(6)},
		Hosts:    []HostFact{{Host: 7, Name: "a", Data: []byte("d")}},
		Cursors:  []HostCursor{{Host: 7, Low: Cursor{1, 2, 3}}},
		Robots:   []RobotsFact{{Origin: "o", FetchedAt: ms(1), Expires: ms(2), Data: []byte("d")}},
		Run:      []RunFact{{Name: "n", Value: []byte("v")}, {Name: "gone"}},
	}
	const want = "010009" + // version, kind, epoch
		"0101a800" + "000000010000000000000000000000030000000000000007" + // finish, its key
		"0101c80101" + "02ac02" + "d10f" + "a11f" + "0172" + "0166" +
		"0202ba00" + "1c" + "0000000200000000" + "0000000000000006000000000000000e" + "0405" + "03" + // links
		"000b68747470733a2f2f612f62" + "0a68747470733a2f2f612f" + "d00f" + "e907" + "0165" +
		"9800" + "07" + "00000000000000010000000000000002" + "0000" + "00" + "0a0163" + "02" +
		"0301" + "0000000500000000000000000000000f0000000000000023" + // leased
		"0401" + "00000006000000000000000000000012000000000000002a" + // returned
		"05018d00" + "0000000000000007" + "01" + "0161" + "0164" + // hosts
		"06018b00" + "0000000000000007" + "010203" + // cursors
		"07018700" + "016f" + "01" + "03" + "05" + "0164" + // robots
		"0802" + "8500" + "016e" + "01" + "0176" + "8700" + "04676f6e65" + "00" + "00" // run
	if got := hex.EncodeToString(appendRecord(nil, 9, &r)); got != want {
		t.Errorf("encoding has changed\n got %s\nwant %s", got, want)
	}
}

func TestStartRoundTrip(t *testing.T) {
	want := map[urlnorm.Key]int{key(1): 1, key(2): 200}
	var v recorder
	if err := walk(appendStart(nil, 3, want), &v); err != nil {
		t.Fatal(err)
	}
	if v.kind != kindStart || v.epoch != 3 || !reflect.DeepEqual(v.crashes, want) {
		t.Errorf("got %+v", v)
	}
}

// TestAddedFields reads what a later writer may have added fields to.
func TestAddedFields(t *testing.T) {
	rec := appendHead(nil, kindEvents, 1)
	rec = appendSection(rec, tagFinish, 1)
	rec, body := beginSized(rec)
	rec = key(1).Append(rec)
	rec = appendFinish(rec, &Finish{Key: key(1), Facts: []byte("f")})
	rec = endSized(append(rec, "a field of tomorrow"...), body)
	if got := decodeRecord(t, rec); string(got.Finish.Facts) != "f" {
		t.Errorf("got %+v", got.Finish)
	}
	value := append(appendHost(nil, &HostFact{Name: "a"}), "a field of tomorrow"...)
	if got, err := decodeHost(1, value); err != nil || got.Name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNewerVersions(t *testing.T) {
	newer := func(b []byte) []byte {
		b[0] = formatVersion + 1
		return b
	}
	err := walk(newer(appendRecord(nil, 1, &Record{})), noVisitor{})
	if e := wantErrAs[*VersionError](t, err); e.Found != formatVersion+1 || e.Known != formatVersion {
		t.Errorf("got %+v", e)
	}
	_, err = decodeFinish(key(1), newer(appendFinish(nil, &Finish{})))
	wantErrAs[*VersionError](t, err)
	_, err = decodeDiscovery(key(1), newer(appendDiscovery(nil, &linkView{})))
	wantErrAs[*VersionError](t, err)
	var b blockBuilder
	b.add(1, 1, &linkView{})
	wantErrAs[*VersionError](t, readBlock(1, 1, newer(b.buf), nil))
}

// TestCutRecords cuts an encoding at every place.
func TestCutRecords(t *testing.T) {
	for name, r := range someRecords() {
		if name == "large" {
			continue
		}
		b := appendRecord(nil, 1, &r)
		for n := range b {
			// A cut between sections leaves a whole record.
			if err := walk(b[:n], &recorder{}); err != nil {
				wantErrAs[*CorruptError](t, err)
			}
		}
	}
	if err := walk(append(appendHead(nil, kindEvents, 1), 99, 1), noVisitor{}); err == nil {
		t.Error("an unknown section is passed over")
	}
}

func TestBlockRoundTrip(t *testing.T) {
	var b blockBuilder
	for round := range 2 {
		b.reset()
		var want []Queued
		for i := range 20 {
			l := Link{
				Key: urlnorm.Key{Host: 9, Hi: uint64(i), Lo: uint64(round)}, URL: "https://a.example/" + strings.Repeat("x", i%5), Depth: uint16(i),
				Priority: 3, Source: uint8(i), Extra: cloned([]byte(strings.Repeat("e", i%3))),
			}
			at := Cursor{Priority: 3, Seq: uint64(100 + i/3), Index: uint32(i)}
			want = append(want, Queued{l, at})
			b.add(at.Seq, int(at.Index), &linkView{key: l.Key, url: []byte(l.URL), depth: l.Depth, priority: 3, source: l.Source, extra: l.Extra})
		}
		var got []Queued
		if err := readBlock(9, 3, b.buf, func(at Cursor, l Link) bool {
			got = append(got, Queued{l, at})
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || b.last != want[19].At || b.count != 20 {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
}

func TestCountersRoundTrip(t *testing.T) {
	var c Counters
	c.Discovered = 5
	for i := range 300 {
		c.finished(&Finish{Outcome: uint8(i), Status: uint16(i * 10), Bytes: 3})
	}
	r := reader{b: c.append(nil)}
	if got := r.counters(); r.bad || got != c {
		t.Errorf("got %+v\nwant %+v", got, c)
	}
	// Codes 63 to 255, once each.
	if got := c.Outcomes[NumOutcomes-1]; got != 193 {
		t.Errorf("%d in the last place of outcomes", got)
	}
	if c.Finished != 300 || c.Pending() != 0 {
		t.Errorf("finished %d, pending %d", c.Finished, c.Pending())
	}
}
