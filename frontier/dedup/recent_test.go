package dedup

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mapwright/mapwright/frontier/weburl"
)

// nthKey is a key as a hasher would make it, for the n-th of many URLs.
func nthKey(n uint64) weburl.Key {
	mix := func(x uint64) uint64 {
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return weburl.Key{Host: weburl.HostID(n), Hi: mix(2*n + 1), Lo: mix(2*n + 2)}
}

func TestRecentIsAMap(t *testing.T) {
	h := NewRecent(64 << 20)
	const keys = 300_000
	lost := 0
	for i := range uint64(keys) {
		h.Add(nthKey(i), 0)
		h.Add(nthKey(i), 0) // again: nothing happens
		if !has(h, nthKey(i)) {
			t.Fatalf("key %d is not there after Add", i)
		}
	}
	for i := range uint64(keys) {
		if !has(h, nthKey(i)) {
			lost++
		}
		if has(h, nthKey(1<<40+i)) {
			t.Fatalf("key %d was never added", i)
		}
	}
	s := h.Stats()
	if lost*300 > keys {
		t.Errorf("%d of %d keys forgotten below the budget", lost, keys)
	}
	if s.Len != keys-int(s.Evictions) || s.Len != keys-lost {
		t.Errorf("Len = %d after %d evictions and %d lost of %d", s.Len, s.Evictions, lost, keys)
	}
	if s.Hits != uint64(2*keys-lost) || s.Misses != uint64(keys+lost) {
		t.Errorf("%d hits, %d misses", s.Hits, s.Misses)
	}
	if s.Bytes > 90*keys {
		t.Errorf("%d bytes for %d keys", s.Bytes, keys)
	}
}

func TestRecentKeysThatShareBits(t *testing.T) {
	h := NewRecent(0)
	a := weburl.Key{Hi: 7, Lo: 9}
	h.Add(a, 0)
	for _, k := range []weburl.Key{{Hi: 7, Lo: 8}, {Hi: 7 + 1<<40, Lo: 9}, {}} {
		if has(h, k) {
			t.Errorf("Has(%v) after Add(%v)", k, a)
		}
	}
	h.Add(weburl.Key{}, 0)
	if !has(h, weburl.Key{}) {
		t.Error("the zero key is not kept")
	}
}

func TestRecentBudget(t *testing.T) {
	for _, budget := range []int{0, firstBuckets * bucketBytes, 100_000, 1 << 20, 1<<20 + 1<<19, 3<<20 + 64} {
		h := NewRecent(budget)
		if s := h.Stats(); s.Bytes != firstBuckets*bucketBytes {
			t.Errorf("budget %d: a new set takes %d bytes", budget, s.Bytes)
		}
		n := 3 * h.Stats().Cap
		for i := range uint64(n) {
			h.Add(nthKey(i), 0)
		}
		s := h.Stats()
		if s.Bytes > max(budget, firstBuckets*bucketBytes) || s.Len > s.Cap {
			t.Errorf("budget %d: %d bytes, %d keys of %d", budget, s.Bytes, s.Len, s.Cap)
		}
		if s.Bytes < budget-bucketBytes {
			t.Errorf("budget %d: only %d bytes used", budget, s.Bytes)
		}
		if s.Len < s.Cap*9/10 {
			t.Errorf("budget %d: %d keys in memory for %d after %d adds", budget, s.Len, s.Cap, n)
		}
		found := 0
		for i := range uint64(n) {
			if has(h, nthKey(i)) {
				found++
			}
		}
		if found != s.Len {
			t.Errorf("budget %d: %d found of %d held", budget, found, s.Len)
		}
	}
}

// TestRecentKeepsWhatIsUsed sends the links of pages past a set far too small for
// them: the navigation, which is on every page, must stay.
func TestRecentKeepsWhatIsUsed(t *testing.T) {
	h := NewRecent(64 << 10)
	const nav = 500
	misses := 0
	for page := range uint64(5_000) {
		for i := range uint64(25) {
			if k := nthKey((page*25 + i) % nav); !has(h, k) {
				misses++
				h.Add(k, 0)
			}
		}
		for i := range uint64(5) {
			h.Add(nthKey(1<<40+page*5+i), 0)
		}
	}
	if misses > nav*3/2 {
		t.Errorf("%d misses of %d links that are on every page", misses, nav)
	}
}

func BenchmarkRecent(b *testing.B) {
	for _, size := range []int{1 << 20, 128 << 20} {
		h := NewRecent(size)
		keys := h.Stats().Cap * 7 / 10
		for i := range keys {
			h.Add(nthKey(uint64(i)), 0)
		}
		name := func(op string) string { return fmt.Sprintf("op=%s/bytes=%d", op, size) }
		rng := rand.New(rand.NewPCG(1, 2))
		b.Run(name("hit"), func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				if has(h, nthKey(rng.Uint64N(uint64(keys)))) {
					found++
				}
			}
			b.ReportMetric(float64(found)/float64(b.N), "found")
		})
		b.Run(name("miss"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				has(h, nthKey(1<<40+rng.Uint64()>>20))
			}
		})
		b.Run(name("add"), func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(1) << 50
			for b.Loop() {
				h.Add(nthKey(i), 0)
				i++
			}
		})
	}
	b.Run("op=add/grow", func(b *testing.B) {
		b.ReportAllocs()
		h := NewRecent(1 << 30)
		i := uint64(0)
		for b.Loop() {
			h.Add(nthKey(i), 0)
			i++
		}
		b.ReportMetric(float64(h.Stats().Bytes)/float64(h.Stats().Len), "B/key")
		b.ReportMetric(float64(h.Stats().Evictions)/float64(i)*100, "%evicted")
	})
}

// BenchmarkRecentSize simulates crawls: of the links that are found, 3 % are new, and the others name any URL known so
// far alike, or by Zipf's law few of them over and over, as navigation does. It reports what share of the repeats is
// found in sets of several sizes, given as the share of all URLs that fit.
func BenchmarkRecentSize(b *testing.B) {
	const urls = 1 << 17
	for _, law := range []string{"uniform", "zipf"} {
		for _, percent := range []int{3, 12, 50, 100} {
			b.Run(fmt.Sprintf("links=%s/fits=%d%%", law, percent), func(b *testing.B) {
				for b.Loop() {
					h := NewRecent(urls * percent / 100 * bucketBytes / ways)
					rng := rand.New(rand.NewPCG(1, 2))
					zipf := rand.NewZipf(rng, 1.1, 1, urls-1)
					repeats, hits := 0, 0
					for known := uint64(1); known < urls; {
						if rng.IntN(100) < 3 {
							h.Add(nthKey(known), 0)
							known++
							continue
						}
						n := rng.Uint64N(known)
						if law == "zipf" {
							n = zipf.Uint64() % known
						}
						repeats++
						if has(h, nthKey(n)) {
							hits++
						} else {
							h.Add(nthKey(n), 0)
						}
					}
					b.ReportMetric(float64(hits)/float64(repeats), "hits/repeat")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func has(h *Recent, k weburl.Key) bool {
	_, ok := h.Find(k)
	return ok
}

// A key that is held has exactly the marks that it was given since it was added last, while the set grows and while
// keys are dropped for others. So the marks of one key never become those of another.
func TestRecentMarks(t *testing.T) {
	for _, budget := range []int{0, 1 << 20} {
		h, rng := NewRecent(budget), rand.New(rand.NewPCG(1, 2))
		// the marks of keys that were added; those of keys that are dropped are forgotten below
		given := map[uint64]uint8{}
		grown := h.Stats().Bytes
		for range 400_000 {
			n, marks := rng.Uint64N(20_000), uint8(rng.IntN(4))
			got, held := h.Find(nthKey(n))
			if !held {
				given[n] = 0
			} else if got != given[n] {
				t.Fatalf("budget %d: key %d has marks %b, want %b", budget, n, got, given[n])
			}
			if rng.IntN(2) == 0 {
				h.Add(nthKey(n), marks)
				given[n] |= marks
			} else if !held {
				delete(given, n)
			}
		}
		if s := h.Stats(); s.Evictions == 0 || (s.Bytes > grown) == (budget == 0) {
			t.Errorf("budget %d: %d evictions, %d bytes, first %d", budget, s.Evictions, s.Bytes, grown)
		}
	}
}
