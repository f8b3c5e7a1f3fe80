package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestArenaSizes(t *testing.T) {
	for n := 1; n <= MaxChunk; n++ {
		class := arenaClass(n)
		if size := arenaSize(class); size < n || class > 0 && arenaSize(class-1) >= n || class >= arenaSizes {
			t.Fatalf("%d bytes are class %d of %d bytes", n, class, size)
		}
	}
}

// Chunks do not overlap, and all of them can be freed.
func TestArena(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var a Arena
	var refs []Ref
	fills := map[Ref]byte{}
	for n := range 10_000 {
		if len(refs) > 0 && r.IntN(5) < 2 {
			i := r.IntN(len(refs))
			ref := refs[i]
			for _, b := range a.At(ref) {
				if b != fills[ref] {
					t.Fatalf("chunk %d has %d, want %d", ref, b, fills[ref])
				}
			}
			a.Free(ref)
			refs = slices.Delete(refs, i, i+1)
			continue
		}
		size := 1 + r.IntN(1<<(1+r.IntN(15)))
		ref := a.Alloc(size)
		c := a.At(ref)
		if len(c) < size || ref == 0 {
			t.Fatalf("chunk %d of %d bytes, want %d", ref, len(c), size)
		}
		fills[ref] = byte(n)
		for i := range c {
			c[i] = byte(n)
		}
		refs = append(refs, ref)
	}
	sum := 0
	for _, ref := range refs {
		sum += len(a.At(ref))
	}
	if a.Bytes() != sum {
		t.Errorf("%d bytes are handed out, want %d", a.Bytes(), sum)
	}
}

// A record keeps its address and its value until it is freed, and is zero after.
func TestSlab(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Slab[int]
	model := map[int32]int{}
	addresses := map[int32]*int{}
	var end int32
	for n := 1; n < 10_000; n++ {
		if len(model) > 0 && r.IntN(5) < 2 {
			for i, want := range model {
				if *s.At(i) != want || s.At(i) != addresses[i] {
					t.Fatalf("record %d is %d, want %d", i, *s.At(i), want)
				}
				s.Free(i)
				delete(model, i)
				break
			}
			continue
		}
		i := s.Alloc()
		if _, used := model[i]; used || *s.At(i) != 0 {
			t.Fatalf("record %d is in use or not zero", i)
		}
		*s.At(i) = n
		model[i], addresses[i] = n, s.At(i)
		end = max(end, i+1)
	}
	if s.Len() != len(model) || s.End() != end {
		t.Errorf("%d records up to %d, want %d up to %d", s.Len(), s.End(), len(model), end)
	}
}

// Two heaps that share their places give back their items in the order of times.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var places Places
	heaps := [2]Heap{NewHeap(&places), NewHeap(&places)}
	const items = 200
	places.Grow(items)
	type node struct {
		heap int
		at   int64
	}
	model := map[int32]node{}
	for range 20_000 {
		item := int32(r.IntN(items))
		n, in := model[item]
		if !in {
			n.heap = r.IntN(2)
		}
		h := &heaps[n.heap]
		if want := n.at; in && h.Time(item) != want || !in && h.Time(item) != math.MaxInt64 {
			t.Fatalf("item %d is at %d, want %+v", item, h.Time(item), n)
		}
		switch r.IntN(8) {
		case 0:
			h.Remove(item)
			delete(model, item)
		case 1:
			h.Set(item, math.MaxInt64)
			delete(model, item)
		default:
			n.at = r.Int64N(50)
			h.Set(item, n.at)
			model[item] = n
		}
		for i := range heaps {
			if err := heaps[i].Check(); err != nil {
				t.Fatal(err)
			}
			top, count := int64(math.MaxInt64), 0
			for _, n := range model {
				if n.heap == i {
					top, count = min(top, n.at), count+1
				}
			}
			if heaps[i].Top() != top || heaps[i].Len() != count || len(heaps[i].Nodes(math.MaxInt)) != count {
				t.Fatalf("%d items from %d on, want %d from %d on", heaps[i].Len(), heaps[i].Top(), count, top)
			}
			if count > 0 && heaps[i].Time(heaps[i].First()) != top {
				t.Fatalf("the first item is at %d, want %d", heaps[i].Time(heaps[i].First()), top)
			}
		}
	}
}

func TestFifo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q Fifo
	var model []int32
	for n := range int32(20_000) {
		switch r.IntN(100) {
		case 0:
			odd := func(i int32) bool { return i%2 == 1 }
			q.Filter(odd)
			model = slices.DeleteFunc(model, func(i int32) bool { return !odd(i) })
		default:
			if r.IntN(1000) < int(n)/20 { // at first the queue grows, then it shrinks
				i, ok := q.Pop()
				if ok != (len(model) > 0) || ok && i != model[0] {
					t.Fatalf("got %d %v", i, ok)
				}
				if ok {
					model = model[1:]
				}
			} else {
				q.Push(n)
				model = append(model, n)
			}
		}
		if q.Len() != len(model) {
			t.Fatalf("%d items, want %d", q.Len(), len(model))
		}
	}
}

// BenchmarkHeap moves the first item to the end, as every lease does.
func BenchmarkHeap(b *testing.B) {
	for _, items := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("items=%.0e", float64(items)), func(b *testing.B) {
			var places Places
			places.Grow(int32(items))
			h := NewHeap(&places)
			for i := range items {
				h.Set(int32(i), int64(i))
			}
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				n := h.Nodes(1)[0]
				h.Set(n.Item, n.At+int64(items/2)+r.Int64N(int64(items)))
			}
		})
	}
}
