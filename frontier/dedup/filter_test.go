package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// newLeakyFilter makes a filter that takes about the given part of all keys for
// known, for tests of those who must live with false positives.
func newLeakyFilter(tb testing.TB, fp float64) *Filter {
	tb.Helper()
	f := NewFilter(0, 0.01)
	f.grow()
	rng := rand.New(rand.NewPCG(3, 4))
	density := math.Pow(fp, 1.0/hashes)
	for i := range f.layers[0].m {
		if rng.Float64() < density {
			f.layers[0].bloom.BitSet().Set(uint(i))
		}
	}
	return f
}

func TestLeakyFilter(t *testing.T) {
	f := newLeakyFilter(t, 0.5)
	if got := falsePositives(f, 20_000); got < 0.45 || got > 0.55 {
		t.Errorf("false positives %.2f, want about 0.5", got)
	}
}

// falsePositives is the rate at which f claims keys that were never added.
func falsePositives(f *Filter, tries int) float64 {
	n := 0
	for i := range tries {
		if f.Has(nthKey(1<<40 + uint64(i))) {
			n++
		}
	}
	return float64(n) / float64(tries)
}

func TestFilterForgetsNothing(t *testing.T) {
	const keys = 200_000
	f := NewFilter(0, 0.01)
	if f.Has(nthKey(0)) || f.Len() != 0 || f.Bytes() != 0 {
		t.Error("a new filter is not empty")
	}
	for i := range uint64(keys) {
		f.Add(nthKey(i))
		if !f.Has(nthKey(i)) || !f.Has(nthKey(i/2)) {
			t.Fatalf("key %d or %d is lost", i, i/2)
		}
		if n := f.Len(); n > 50_000 && float64(f.Bytes()) > 2.51*float64(n) {
			t.Fatalf("%d bytes for %d keys", f.Bytes(), n)
		}
	}
	for i := range uint64(keys) {
		if !f.Has(nthKey(i)) {
			t.Fatalf("key %d is lost", i)
		}
	}
	if f.Len() != keys {
		t.Errorf("Len = %d, want %d", f.Len(), keys)
	}
	if got := falsePositives(f, 100_000); got > 0.01 {
		t.Errorf("false positives %.4f with %d layers", got, f.Layers())
	}
}

// TestFilterPlan adds up the layers for more keys than a test can hold.
func TestFilterPlan(t *testing.T) {
	for _, capacity := range []int{0, 10_000_000 / 256, 10_000_000} {
		f := NewFilter(capacity, 0.01)
		p := f.fpRate * layerShare
		var keys, layers int
		var size float64
		for keys < 100_000_000 {
			n := f.nextLayer(keys)
			size += math.Ceil(float64(n) * bitsPerKey(p) / 8)
			layers++
			if keys > 4*f.first && size > 2.5*float64(keys) {
				t.Errorf("capacity %d: %.2f bytes a key when a layer is opened at %d", capacity, size/float64(keys),
					keys)
			}
			keys += n
		}
		if fp := float64(layers) * p; fp > 0.03 {
			t.Errorf("capacity %d: false positives %.4f at %d keys in %d layers", capacity, fp, keys, layers)
		}
	}
}

func snapshotBlobs(t *testing.T, f *Filter, tag uint64, from int) [][]byte {
	t.Helper()
	var blobs [][]byte
	for i, s := range f.Snapshot(tag, from) {
		var b bytes.Buffer
		n, err := s.WriteTo(&b)
		if err != nil || n != int64(b.Len()) {
			t.Fatalf("WriteTo = %d, %v; wrote %d", n, err, b.Len())
		}
		if s.Size() != b.Len() {
			t.Fatalf("Size = %d, wrote %d", s.Size(), b.Len())
		}
		if s.index != from+i {
			t.Fatalf("layer %d has index %d", from+i, s.index)
		}
		blobs = append(blobs, b.Bytes())
	}
	return blobs
}

func TestFilterSnapshot(t *testing.T) {
	const tag = 42
	f := NewFilter(0, 0.01)
	for i := range uint64(40_000) {
		f.Add(nthKey(i))
	}
	first := f.Snapshot(tag, 0)
	if len(first) != 3 || !first[0].sealed || !first[1].sealed || first[2].sealed {
		t.Fatalf("snapshot of %d layers is not sealed, sealed, active", len(first))
	}
	stored := snapshotBlobs(t, f, tag, 0)
	for i := range uint64(40_000) {
		f.Add(nthKey(40_000 + i))
	}
	if got := falsePositives(&Filter{layers: []layer{first[2].layer}}, 10_000); got > 0.01 {
		t.Errorf("what was added after the snapshot shows in it: false positives %.3f", got)
	}

	// What was sealed before is not written again.
	stored = append(stored[:2], snapshotBlobs(t, f, tag, 2)...)
	g, err := restore(5_000_000, 0.02, tag, stored)
	if err != nil {
		t.Fatal(err)
	}
	if g.Len() != f.Len() || g.Layers() != f.Layers() || g.Bytes() != f.Bytes() {
		t.Errorf("restored %d keys in %d layers of %d bytes, want %d in %d of %d",
			g.Len(), g.Layers(), g.Bytes(), f.Len(), f.Layers(), f.Bytes())
	}
	for i := range uint64(80_000) {
		if !g.Has(nthKey(i)) {
			t.Fatalf("key %d is lost", i)
		}
	}
	for i := range uint64(200_000) {
		if k := nthKey(1<<30 + i); f.Has(k) != g.Has(k) {
			t.Fatalf("filters differ on key %d", i)
		}
	}
	for i := range uint64(40_000) {
		g.Add(nthKey(80_000 + i))
		if !g.Has(nthKey(80_000 + i)) {
			t.Fatalf("key %d is lost", i)
		}
	}
}

func TestFilterSnapshotOfNothing(t *testing.T) {
	g, err := restore(0, 0.01, 1, snapshotBlobs(t, NewFilter(0, 0.01), 1, 0))
	if err != nil || g.Len() != 0 || g.Has(nthKey(1)) {
		t.Errorf("restored %v, %v", g, err)
	}
}

func TestFilterRestoreErrors(t *testing.T) {
	f := NewFilter(0, 0.01)
	for i := range uint64(20_000) {
		f.Add(nthKey(i))
	}
	blobs := snapshotBlobs(t, f, 7, 0)
	edit := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] ^= v
		return b
	}
	// resum makes the checksum right again, so that the check after it is reached.
	resum := func(b []byte) []byte {
		body := b[:len(b)-layerTrailer]
		return binary.LittleEndian.AppendUint32(bytes.Clone(body),
			crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	}
	for _, tc := range []struct {
		name   string
		tag    uint64
		blobs  [][]byte
		layer  int
		reason string
	}{
		{"other seed", 8, blobs, 0, "another seed"},
		{"swapped", 7, [][]byte{blobs[1], blobs[0]}, 0, "is layer 1"},
		{"last one missing", 7, blobs[:1], 0, "same snapshot"},
		{"first one missing", 7, blobs[1:], 0, "is layer 1"},
		{"empty", 7, [][]byte{blobs[0], nil}, 1, "too short"},
		{"cut", 7, [][]byte{blobs[0], blobs[1][:len(blobs[1])-1]}, 1, "checksum"},
		{"flipped bit", 7, [][]byte{edit(blobs[0], 5000, 4), blobs[1]}, 0, "checksum"},
		{"flipped checksum", 7, [][]byte{edit(blobs[0], len(blobs[0])-1, 1), blobs[1]}, 0, "checksum"},
		{"not ours", 7, [][]byte{edit(blobs[0], 0, 1), blobs[1]}, 0, "not a filter layer"},
		{"later version", 7, [][]byte{edit(blobs[0], 4, 2), blobs[1]}, 0, "version 3"},
		{"no capacity", 7, [][]byte{resum(edit(blobs[0], 8+2*8+1, 0x40)), blobs[1]}, 0, "impossible"},
		{"absurd count", 7, [][]byte{resum(edit(blobs[0], 8+3*8+7, 0x40)), blobs[1]}, 0, "impossible"},
		{"absurd size", 7, [][]byte{resum(edit(blobs[0], layerHeader, 0x40)), blobs[1]}, 0, "size"},
		{"other hash count", 7, [][]byte{resum(edit(blobs[0], layerHeader+15, 1)), blobs[1]}, 0, "size"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := restore(0, 0.01, tc.tag, tc.blobs)
			var fe *LayerError
			if !errors.As(err, &fe) {
				t.Fatalf("error %v, want a LayerError", err)
			}
			if fe.Layer != tc.layer || !strings.Contains(fe.Reason, tc.reason) {
				t.Errorf("layer %d: %q, want layer %d: %q", fe.Layer, fe.Reason, tc.layer, tc.reason)
			}
		})
	}
}

// restore makes a filter of stored layers, given in order.
func restore(capacity int, fpRate float64, tag uint64, blobs [][]byte) (*Filter, error) {
	f := NewFilter(capacity, fpRate)
	for i, b := range blobs {
		if err := f.AddLayer(b, tag, i < len(blobs)-1); err != nil {
			return nil, err
		}
	}
	return f, nil
}

type brokenWriter struct{ space int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.space -= len(p); w.space < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestFilterSnapshotWriteError(t *testing.T) {
	f := NewFilter(0, 0.01)
	f.Add(nthKey(1))
	size := len(snapshotBlobs(t, f, 1, 0)[0])
	for _, space := range []int{0, size / 2, size - 1} {
		if _, err := f.Snapshot(1, 0)[0].WriteTo(&brokenWriter{space}); err == nil {
			t.Errorf("no error with space for %d of %d bytes", space, size)
		}
	}
}

// FuzzFilterRestore gives the decoder bytes with a right checksum, as an attacker
// of the data directory would.
func FuzzFilterRestore(f *testing.F) {
	small := Layer{layer: newLayer(10, 0.01), tag: 1}
	var b bytes.Buffer
	if _, err := small.WriteTo(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()[:b.Len()-layerTrailer])
	f.Add([]byte("MWBF"))
	f.Fuzz(func(t *testing.T, body []byte) {
		blob := binary.LittleEndian.AppendUint32(bytes.Clone(body),
			crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		g, err := restore(0, 0.01, 1, [][]byte{blob})
		if err != nil {
			return
		}
		if g.Bytes() > len(blob) {
			t.Errorf("%d bytes of filter out of %d", g.Bytes(), len(blob))
		}
		g.Add(nthKey(1))
		if !g.Has(nthKey(1)) {
			t.Error("key is lost")
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	for _, n := range []int{40_000, 400_000, 10_000_000} {
		f := NewFilter(10_000_000/256, 0.01)
		for i := range n {
			f.Add(nthKey(uint64(i)))
		}
		b.Run(fmt.Sprintf("op=add/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			f, i := f, uint64(0)
			for b.Loop() {
				if i%uint64(n) == 0 {
					f = NewFilter(10_000_000/256, 0.01)
				}
				f.Add(nthKey(i))
				i++
			}
		})
		b.Run(fmt.Sprintf("op=hit/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				f.Has(nthKey(i * 7919 % uint64(n)))
				i++
			}
			b.ReportMetric(float64(f.Bytes())/float64(n), "B/key")
			b.ReportMetric(float64(f.Layers()), "layers")
		})
		b.Run(fmt.Sprintf("op=miss/keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i, fp := uint64(1<<40), 0
			for b.Loop() {
				if f.Has(nthKey(i)) {
					fp++
				}
				i++
			}
			b.ReportMetric(float64(fp)/float64(i-1<<40)*100, "%fp")
		})
	}
}
