package record

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// FuzzWalk decodes anything as a log entry. What decodes must decode to the
// same again after it was encoded anew.
func FuzzWalk(f *testing.F) {
	for _, r := range someRecords() {
		if b := Append(nil, 1, &r, &Bodies{}); len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Add(AppendOpened(nil, 2, AllPartitions(), nil))
	f.Add(AppendClosed(nil, 3, AllPartitions(), map[uint8]frontier.Closed{7: {At: ms(5),
		Hosts: []frontier.HostNotBefore{{Host: 7<<56 | 1, At: ms(9)}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v recorder
		if v.walk(b) != nil || v.crashes != nil {
			return
		}
		for i := range v.rec.Visits { // what only an earlier writer gave
			l := &v.rec.Visits[i]
			l.URL, l.Parent, l.Discovered, l.LastMod = weburl.URL{}, weburl.URL{}, time.Time{}, time.Time{}
		}
		again := Append(nil, 1, &v.rec, &Bodies{})
		var w recorder
		if err := w.walk(again); err != nil {
			t.Fatalf("%x encodes to %x, which does not decode: %v", b, again, err)
		}
		if !reflect.DeepEqual(v.rec, w.rec) {
			t.Fatalf("%x\n got %+v\nwant %+v", b, w.rec, v.rec)
		}
	})
}

// FuzzValues decodes anything as each of the values in Badger and the files
// beside it.
func FuzzValues(f *testing.F) {
	f.Add(appendFinish(nil, &frontier.Finish{Status: 200, RedirectTo: "https://a.example/", Facts: []byte("f")}))
	f.Add(appendFinish(nil, &frontier.Finish{Visit: 2, KeepFacts: true, NotModified: true, Change: 3, Failures: 1,
		Changes: 2, ChangedAt: ms(5), Differences: []byte("d")}))
	f.Add(AppendNamed(nil, &frontier.Named{Generation: 300, LastMod: ms(5)}))
	f.Add(AppendDifferences(nil, &frontier.Finish{Change: 2, Differences: []byte("d")}))
	f.Add(AppendDiscovery(nil, &LinkView{url: []byte("https://a.example/x"), parent: []byte("https://a.example/"),
		hops: 3}))
	f.Add((&Bodies{}).AppendOrigin(nil, &frontier.OriginFact{Body: []byte("d")}))
	f.Add(AppendVoucher(nil, &frontier.Voucher{Visit: 300}))
	f.Add(appendHost(nil, &frontier.HostFact{Name: "a", Pages: 3}))
	var b BlockBuilder
	b.Add(1, &LinkView{Index: 2, url: []byte("https://a.example/x")})
	b.Add(1, &LinkView{Index: 3, url: []byte("https://a.example/y")})
	f.Add(b.Buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		if fin, err := DecodeFinish(key(1), b); err == nil {
			if again, err := DecodeFinish(key(1), appendFinish(nil, fin)); err != nil ||
				!reflect.DeepEqual(fin, again) {
				t.Fatalf("finish\n got %+v, %v\nwant %+v", again, err, fin)
			}
		}
		if host, err := DecodeHost(1, b); err == nil {
			if again, err := DecodeHost(1, appendHost(nil, &host)); err != nil || !reflect.DeepEqual(host, again) {
				t.Fatalf("host\n got %+v, %v\nwant %+v", again, err, host)
			}
		}
		if origin, err := (&Bodies{}).DecodeOrigin(1, "o", b); err == nil {
			if again, err := (&Bodies{}).DecodeOrigin(1, "o", (&Bodies{}).AppendOrigin(nil, &origin)); err != nil ||
				!reflect.DeepEqual(origin, again) {
				t.Fatalf("origin\n got %+v, %v\nwant %+v", again, err, origin)
			}
		}
		if visit, err := DecodeVoucher(b); err == nil {
			if again, err := DecodeVoucher(AppendVoucher(nil, &frontier.Voucher{Visit: visit})); err != nil ||
				visit != again {
				t.Fatalf("voucher\n got %+v, %v\nwant %+v", again, err, visit)
			}
		}
		if generation, lastMod, err := DecodeNamed(b); err == nil {
			g, at, err := DecodeNamed(AppendNamed(nil, &frontier.Named{Generation: generation, LastMod: lastMod}))
			if err != nil || g != generation || !at.Equal(lastMod) {
				t.Fatalf("naming\n got %v, %v, %v\nwant %v, %v", g, at, err, generation, lastMod)
			}
		}
		if change, differences, err := DecodeDifferences(b); err == nil {
			c, d, err := DecodeDifferences(AppendDifferences(nil,
				&frontier.Finish{Change: change, Differences: differences}))
			if err != nil || c != change || !bytes.Equal(d, differences) {
				t.Fatalf("change\n got %v, %x, %v\nwant %v, %x", c, d, err, change, differences)
			}
		}
		if link, err := DecodeDiscovery(key(1), b); err == nil &&
			len(link.URL.String())+len(link.Parent.String()) > 1<<20 && len(b) < 1<<19 {
			t.Fatalf("%d bytes decode to a link of %d", len(b), len(link.URL.String())+len(link.Parent.String()))
		}
		// A block never yields more than its bytes account for.
		n := 0
		_ = ReadBlock(1, 1, b, func(*frontier.Link) bool {
			n++
			return true
		})
		if n > len(b) {
			t.Fatalf("%d links in %d bytes", n, len(b))
		}
	})
}
