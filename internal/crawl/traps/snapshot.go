package traps

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/mapwright/mapwright/frontier/dedup"
)

// SnapshotName and SnapshotVersion are those of the blob that Snapshot makes.
const (
	SnapshotName    = "fold-traps"
	SnapshotVersion = 2
)

// The blob, all numbers big-endian and 8 bytes: for each map its number of entries, then key and value of each, the
// oldest first; then the layers of the two filters of texts, each with its length before it and 0 behind the last;
// then, since version 2, the map of seen rests. Lists in values have their lengths before them. Its checksum is the
// store's.

// Snapshot returns what was computed from all evidence that is committed, and from no other: it waits for
// what is between Begin and End.
func (t *Traps) Snapshot() ([]byte, error) {
	t.pending.Lock()
	defer t.pending.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &writer{}
	saveFIFO(w, &t.params.rests, func(o observation) { w.words(o.value, o.text, o.words, uint64(o.state)) })
	saveFIFO(w, &t.params.subjects, func(s *subject) {
		w.words(uint64(s.agree), uint64(s.differ))
		for _, list := range [][]uint64{s.paths, s.texts, s.values} {
			w.words(uint64(len(list)))
			w.words(list...)
		}
	})
	saveFIFO(w, t.ineffective.Load(), func(struct{}) {})
	saveFIFO(w, &t.params.claims, func(c claim) { w.words(c.owner, c.word()) })
	saveFIFO(w, &t.seqs.pages, func(struct{}) {})
	saveFIFO(w, &t.seqs.hosts, func(h *sequenceHost) { w.words(uint64(h.barren), uint64(h.fruitful)) })
	saveFIFO(w, &t.combos.paths, func(p *comboPath) { w.words(uint64(p.sets), uint64(p.pairs), uint64(p.reordered)) })
	saveFIFO(w, &t.combos.sets, func(query uint64) { w.words(query) })
	saveFIFO(w, &t.combos.queries, func(struct{}) {})
	saveFIFO(w, &t.combos.pairs, func(struct{}) {})
	saveFIFO(w, &t.listed, func(struct{}) {})
	saveFIFO(w, &t.counts, func(n uint32) { w.words(uint64(n)) })
	for _, f := range []*dedup.Filter{t.texts.newer, t.texts.older} {
		if err := w.filter(f, uint64(t.hash)); err != nil {
			return nil, fmt.Errorf("save traps: %w", err)
		}
	}
	saveFIFO(w, &t.params.seen, func(n uint32) { w.words(uint64(n)) })
	return w.b.Bytes(), nil
}

// Restore reads what Snapshot returned. After an error it knows nothing.
func (t *Traps) Restore(from io.Reader) error {
	b, err := io.ReadAll(from)
	if err != nil {
		return fmt.Errorf("restore traps: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset()
	r := &reader{b: b}
	loadFIFO(r, &t.params.rests, func() observation {
		return observation{r.word(), r.word(), r.word(), observed(r.upTo(uint64(differed)))}
	})
	loadFIFO(r, &t.params.subjects, func() *subject {
		return &subject{r.u32(), r.u32(), r.list(ineffectivePaths), r.list(onePathTexts), r.list(maxValues)}
	})
	loadFIFO(r, t.ineffective.Load(), none) // no other call is under way
	loadFIFO(r, &t.params.claims, func() claim { return claimOf(r.word(), r.word()) })
	loadFIFO(r, &t.seqs.pages, none)
	loadFIFO(r, &t.seqs.hosts, func() *sequenceHost { return &sequenceHost{r.u32(), r.u32()} })
	loadFIFO(r, &t.combos.paths, func() *comboPath { return &comboPath{r.u32(), r.u32(), r.u32()} })
	loadFIFO(r, &t.combos.sets, r.word)
	loadFIFO(r, &t.combos.queries, none)
	loadFIFO(r, &t.combos.pairs, none)
	loadFIFO(r, &t.listed, none)
	loadFIFO(r, &t.counts, r.u32)
	for _, f := range []*dedup.Filter{t.texts.newer, t.texts.older} {
		r.filter(f, uint64(t.hash))
	}
	if len(r.b) > 0 { // version 1 ends here
		loadFIFO(r, &t.params.seen, r.u32)
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("there is more than there should be")
	}
	if r.err != nil {
		t.reset()
		return fmt.Errorf("restore traps: %w", r.err)
	}
	return nil
}

func none() struct{} { return struct{}{} }

// maxValues bounds the list of a subject, whatever the settings of the run that saved it.
const maxValues = 1 << 16

type writer struct{ b bytes.Buffer }

func (w *writer) words(list ...uint64) {
	for _, v := range list {
		w.b.Write(binary.BigEndian.AppendUint64(w.b.AvailableBuffer(), v))
	}
}

func saveFIFO[V any](w *writer, f *fifo[V], value func(V)) {
	w.words(uint64(f.len()))
	f.all(func(k uint64, v V) bool {
		w.words(k)
		value(v)
		return true
	})
}

func (w *writer) filter(f *dedup.Filter, tag uint64) error {
	for _, l := range f.Snapshot(tag, 0) {
		w.words(uint64(l.Size()))
		if _, err := l.WriteTo(&w.b); err != nil {
			return err
		}
	}
	w.words(0)
	return nil
}

// A reader reads what a writer wrote. After a fault it returns zeros.
type reader struct {
	b   []byte
	err error
}

var (
	errShort = errors.New("it ends too early")
	errRange = errors.New("a number is too large")
	errTwice = errors.New("a key is there twice")
)

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) word() uint64 {
	if len(r.b) < 8 {
		r.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) upTo(most uint64) uint64 {
	v := r.word()
	if v > most {
		r.fail(errRange)
		return 0
	}
	return v
}

func (r *reader) u32() uint32 { return uint32(r.upTo(1<<32 - 1)) }

func (r *reader) list(most uint64) []uint64 {
	var list []uint64
	for n := r.upTo(most); n > 0 && r.err == nil; n-- {
		list = append(list, r.word())
	}
	return list
}

func loadFIFO[V any](r *reader, f *fifo[V], value func() V) {
	for n := r.upTo(uint64(f.most)); n > 0 && r.err == nil; n-- {
		k, v := r.word(), value()
		if f.has(k) {
			r.fail(errTwice)
			return
		}
		f.put(k, v)
	}
}

func (r *reader) filter(f *dedup.Filter, tag uint64) {
	for ended := false; r.err == nil; {
		size := r.word()
		if size == 0 {
			if !ended {
				r.fail(errShort)
			}
			return
		}
		if ended || size > uint64(len(r.b)) {
			r.fail(errRange)
			return
		}
		blob := r.b[:size]
		r.b = r.b[size:]
		ended = !dedup.IsSealed(blob)
		if err := f.AddLayer(blob, tag, !ended); err != nil {
			r.fail(err)
			return
		}
	}
}
