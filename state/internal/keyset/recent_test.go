package keyset

import (
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

func key(i uint64) weburl.Key { return weburl.Key{Host: 1, Hi: i * 0x9e3779b97f4a7c15, Lo: i} }

func TestRecent(t *testing.T) {
	var s Recent
	for i := range uint64(3 * RecentKeys) {
		if !s.Add(key(i), 0) {
			t.Fatalf("key %d is not new", i)
		}
		if s.Add(key(i), 0) {
			t.Fatalf("key %d is new again", i)
		}
	}
	for i := uint64(2*RecentKeys) + 1; i < 3*RecentKeys; i++ {
		if s.Add(key(i), 0) {
			t.Fatalf("key %d is forgotten", i)
		}
	}
	if !s.Add(key(3*RecentKeys-1), 1) {
		t.Error("another generation is not another visit")
	}
	if n := s.cur.n + s.old.n; n > 2*RecentKeys {
		t.Errorf("%d keys are kept", n)
	}
}
