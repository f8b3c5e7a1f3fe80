package state

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzWalk decodes anything as a log entry. What decodes must decode to the
// same again after it was encoded anew.
func FuzzWalk(f *testing.F) {
	for _, r := range someRecords() {
		if b := appendRecord(nil, 1, &r); len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Add(appendStart(nil, 2, nil))
	f.Add(appendHead(nil, kindEnd, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v recorder
		if walk(b, &v) != nil || v.kind != kindEvents || v.crashes != nil {
			return
		}
		again := appendRecord(nil, v.epoch, &v.rec)
		var w recorder
		if err := walk(again, &w); err != nil {
			t.Fatalf("%x encodes to %x, which does not decode: %v", b, again, err)
		}
		if !reflect.DeepEqual(v, w) {
			t.Fatalf("%x\n got %+v\nwant %+v", b, w, v)
		}
	})
}

// FuzzValues decodes anything as each of the values in Badger and the files
// beside it.
func FuzzValues(f *testing.F) {
	f.Add(appendFinish(nil, &Finish{Status: 200, RedirectTo: "https://a.example/", Facts: []byte("f")}))
	f.Add(appendDiscovery(nil, &linkView{url: []byte("https://a.example/x"), parent: []byte("https://a.example/"), extra: []byte("e")}))
	f.Add(appendRobots(nil, &RobotsFact{Data: []byte("d")}))
	f.Add(appendHost(nil, &HostFact{Name: "a", Data: []byte("d")}))
	var b blockBuilder
	b.add(1, 2, &linkView{url: []byte("https://a.example/x")})
	b.add(1, 3, &linkView{url: []byte("https://a.example/y")})
	f.Add(b.buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		if fin, err := decodeFinish(key(1), b); err == nil {
			if again, err := decodeFinish(key(1), appendFinish(nil, fin)); err != nil || !reflect.DeepEqual(fin, again) {
				t.Fatalf("finish\n got %+v, %v\nwant %+v", again, err, fin)
			}
		}
		if host, err := decodeHost(1, b); err == nil {
			if again, err := decodeHost(1, appendHost(nil, &host)); err != nil || !reflect.DeepEqual(host, again) {
				t.Fatalf("host\n got %+v, %v\nwant %+v", again, err, host)
			}
		}
		if rob, err := decodeRobots("o", b); err == nil {
			if again, err := decodeRobots("o", appendRobots(nil, &rob)); err != nil || !reflect.DeepEqual(rob, again) {
				t.Fatalf("robots\n got %+v, %v\nwant %+v", again, err, rob)
			}
		}
		if link, err := decodeDiscovery(key(1), b); err == nil && len(link.URL)+len(link.Parent) > 1<<20 && len(b) < 1<<19 {
			t.Fatalf("%d bytes decode to a link of %d", len(b), len(link.URL)+len(link.Parent))
		}
		// A block never yields more than its bytes account for.
		n := 0
		_ = readBlock(1, 1, b, func(Cursor, Link) bool {
			n++
			return true
		})
		if n > len(b) {
			t.Fatalf("%d links in %d bytes", n, len(b))
		}
		r := reader{b: bytes.Clone(b)}
		_ = r.counters()
	})
}
