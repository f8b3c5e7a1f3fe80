package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mapwright/mapwright/internal/test/long"
)

// sample is a small log of two segments and what is known about it.
type sample struct {
	files map[string][]byte
	last  string // path of the last segment
	recs  [][]byte
	tail  int64              // offset of the last batch in the last segment
	safe  int                // records before that batch
	ends  map[string][]int64 // where records end, by path
}

// makeSample writes a log of which the last batch has several records over
// several pages. If clean is not set, its process was killed afterwards.
func makeSample(t testing.TB, clean bool) sample {
	t.Helper()
	fs := newMemFS()
	l := mustOpen(t, fs, Options{SegmentSize: 5 * pageSize})
	var s sample
	for _, sizes := range [][]int{{20, 5000}, {4100}, {300}, {10, 3000, 0, 2000, 40}} {
		var recs [][]byte
		for _, n := range sizes {
			recs = append(recs, testRecord(len(s.recs)+len(recs), n))
		}
		s.safe, s.recs = len(s.recs), append(s.recs, recs...)
		mustAppend(t, l, recs...)
	}
	if clean {
		mustClose(t, l)
		s.files = fs.snapshot()
	} else {
		s.files = fs.snapshot()
		mustClose(t, l)
	}
	s.last = slices.Max(slices.Collect(maps.Keys(s.files)))
	if n := len(s.files); n != 2 {
		t.Fatalf("sample has %d segments", n)
	}
	s.ends = map[string][]int64{}
	for name, data := range s.files {
		r := newFrameReader(bytes.NewReader(data), segment{header: mustHeader(t, data), path: name}, int64(len(data)))
		for {
			lsn, _, err := r.read()
			if err != nil {
				break
			}
			s.ends[name] = append(s.ends[name], r.off)
			if int(lsn) == s.safe+1 {
				s.tail = r.barrier
			}
		}
	}
	return s
}

// tailEnds says where the records of the last batch end.
func (s sample) tailEnds() []int64 {
	ends := s.ends[s.last]
	return ends[len(ends)-(len(s.recs)-s.safe):]
}

func mustHeader(t testing.TB, b []byte) *header {
	t.Helper()
	h, err := decodeHeader("sample", b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// result is what came of opening and reading a damaged log.
type result struct {
	recs      [][]byte
	torn      *TornTail
	err       error
	unchanged bool // the files are as they were before Open
}

func examine(files map[string][]byte) (r result) {
	fs := memFSOf(files)
	l, err := Open(testDir, Options{FS: fs})
	r.err = err
	if err == nil {
		r.torn = l.Recovery()
		r.recs, r.err = contents(l)
	}
	r.unchanged = !fs.touched()
	return r
}

func isPrefix(recs, of [][]byte) bool {
	return len(recs) <= len(of) && slices.EqualFunc(recs, of[:len(recs)], bytes.Equal)
}

// TestFlipEveryByte: a flipped bit is reported as damage, with nothing changed,
// or it is in the last batch of a log that was not closed, and that is cut.
func TestFlipEveryByte(t *testing.T) {
	long.Test(t)
	for _, clean := range []bool{true, false} {
		s := makeSample(t, clean)
		for name, data := range s.files {
			for i := 0; i < len(data); i += stride {
				mask := byte(1) << (i % 8)
				data[i] ^= mask
				r := examine(s.files)
				data[i] ^= mask

				where := fmt.Sprintf("clean=%v %s byte %d mask %02x", clean, name, i, mask)
				ends := s.ends[name]
				inTail := name == s.last && int64(i) >= s.tail
				harmless := name != s.last && int64(i) >= ends[len(ends)-1]
				switch {
				case !isPrefix(r.recs, s.recs):
					t.Fatalf("%s: a wrong record was delivered", where)
				case r.err != nil && (!corrupt(r.err) || !r.unchanged):
					t.Fatalf("%s: %v, unchanged %v", where, r.err, r.unchanged)
				case r.err != nil:
				case harmless && len(r.recs) == len(s.recs):
				case r.torn == nil:
					t.Fatalf("%s: not noticed", where)
				case !inTail || len(r.recs) < s.safe:
					t.Fatalf("%s: taken for a torn tail: %v", where, r.torn)
				case clean && len(r.recs) < len(s.recs):
					t.Fatalf("%s: records lost from a log that was closed: %v", where, r.torn)
				}
			}
		}
	}
}

// TestTornTailEveryLength cuts the last batch after every byte, in the three
// ways a file can look then.
func TestTornTailEveryLength(t *testing.T) {
	s := makeSample(t, false)
	whole := s.files[s.last]
	end := s.tailEnds()[len(s.tailEnds())-1]
	rng := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, len(whole))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for cut := s.tail; cut <= end; cut += stride {
		kept := s.safe
		at := s.tail
		if cut >= s.tail+barrierSize {
			at = s.tail + barrierSize
		}
		for _, e := range s.tailEnds() {
			if e <= cut {
				kept, at = kept+1, e
			}
		}
		garbage := append(bytes.Clone(whole[:cut]), noise[cut:]...)
		garbage[cut] = ^whole[cut]
		zeros := make([]byte, len(whole))
		copy(zeros, whole[:cut])
		forms := map[string][]byte{"short": whole[:cut], "garbage": garbage}
		// Zeros change nothing if the rest of the frame is zeros already, such as
		// the last byte of a checksum, which differs from run to run.
		frameEnd := s.tail + barrierSize
		for _, e := range s.tailEnds() {
			if frameEnd <= cut {
				frameEnd = e
			}
		}
		if cut == end || !isZero(whole[cut:frameEnd]) {
			forms["zeros"] = zeros
		}
		for how, data := range forms {
			files := maps.Clone(s.files)
			files[s.last] = data
			r := examine(files)
			lost := !isZero(data[at:])
			switch {
			case r.err != nil:
				t.Fatalf("%s at %d: %v", how, cut, r.err)
			case len(r.recs) != kept || !isPrefix(r.recs, s.recs):
				t.Fatalf("%s at %d: %d records, want %d", how, cut, len(r.recs), kept)
			case lost != (r.torn != nil):
				t.Fatalf("%s at %d: reported %v", how, cut, r.torn)
			case !lost:
			case r.torn.Segment != s.last || r.torn.Next != LSN(kept+1):
				t.Fatalf("%s at %d: reported %v", how, cut, r.torn)
			case r.torn.Offset != at && how != "garbage":
				t.Fatalf("%s at %d: reported %v, want offset %d", how, cut, r.torn, at)
			}
		}
	}
}

// TestLostPages loses every set of pages of the last batch, which is a torn
// tail, and every page before it, which is not.
func TestLostPages(t *testing.T) {
	s := makeSample(t, false)
	whole := s.files[s.last]
	first, end := s.tail/pageSize, alignUp(s.tailEnds()[len(s.tailEnds())-1])/pageSize
	lose := func(pages ...int64) result {
		files := maps.Clone(s.files)
		data := bytes.Clone(whole)
		for _, p := range pages {
			clear(data[p*pageSize:][:pageSize])
		}
		files[s.last] = data
		return examine(files)
	}
	for set := range 1 << (end - first) {
		var pages []int64
		for p := first; p < end; p++ {
			if set&(1<<(p-first)) != 0 {
				pages = append(pages, p)
			}
		}
		kept := len(s.recs)
		if len(pages) > 0 {
			kept = s.safe
			for _, e := range s.tailEnds() {
				if e <= pages[0]*pageSize {
					kept++
				}
			}
		}
		r := lose(pages...)
		if r.err != nil || len(r.recs) != kept || !isPrefix(r.recs, s.recs) {
			t.Errorf("pages %v lost: %d records, want %d, %v", pages, len(r.recs), kept, r.err)
		}
	}
	for p := int64(0); p < first; p++ {
		if r := lose(p); !damaged(r.err) || !r.unchanged {
			t.Errorf("page %d lost before the tail: %v, unchanged %v", p, r.err, r.unchanged)
		}
	}
}

// TestDamagedSegments: what a directory may hold that no crash leaves there.
func TestDamagedSegments(t *testing.T) {
	other := makeSample(t, true)
	resum := func(b []byte) {
		binary.LittleEndian.PutUint32(b[headerSum:], checksum(0, b[:headerSum]))
	}
	first := segmentPath(testDir, 1)
	tests := map[string]struct {
		change func(s sample)
		want   string
	}{
		"newer version": {func(s sample) {
			s.files[s.last][8] = 2
			resum(s.files[s.last])
		}, "has format version 2, this program knows up to 1"},
		"other log": {func(s sample) { s.files[first] = other.files[first] }, "another log"},
		"renamed": {func(s sample) { s.files[segmentPath(testDir, 2)] = s.files[first]; delete(s.files, first) },
			"record 1 is the first"},
		"record zero":   {func(s sample) { s.files[first][32] = 0; resum(s.files[first]) }, "first record number is 0"},
		"not a segment": {func(s sample) { s.files[first][0]++ }, "not a log segment"},
		"short header":  {func(s sample) { s.files[first] = s.files[first][:100] }, "header has 100 of 4096 bytes"},
		"empty file":    {func(s sample) { s.files[s.last] = nil }, "header has 0 of 4096 bytes"},
		"missing segment": {func(s sample) {
			last := s.files[s.last]
			binary.LittleEndian.PutUint64(last[32:], 9)
			resum(last)
			s.files[segmentPath(testDir, 9)] = last
			delete(s.files, s.last)
		}, "barrier of record"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := makeSample(t, true)
			tt.change(s)
			r := examine(s.files)
			if !damaged(r.err) || !strings.Contains(r.err.Error(), tt.want) {
				t.Errorf("got %v, want %q", r.err, tt.want)
			}
			if !r.unchanged {
				t.Error("files were changed")
			}
		})
	}
}

// TestLostSeal: a process was killed while it closed the log, the next one went
// on, and then the power failed before the seal had reached the disk whole.
func TestLostSeal(t *testing.T) {
	s := makeSample(t, true)
	l := mustOpen(t, memFSOf(s.files), Options{})
	mustAppend(t, l, []byte("more"))
	files := l.opts.FS.(*memFS).snapshot()
	mustClose(t, l)
	seal := files[s.last][len(files[s.last])-pageSize:]
	for _, change := range []func(){
		func() { seal[barrierSize-1]++ },
		func() { clear(seal) },
		func() { files[s.last] = files[s.last][:len(files[s.last])-pageSize] },
	} {
		change()
		if r := examine(files); r.err != nil || len(r.recs) != len(s.recs)+1 {
			t.Errorf("%d records, want %d: %v", len(r.recs), len(s.recs)+1, r.err)
		}
	}
}

// TestUnknownType: a frame that is whole but of a type we do not know is not a
// torn tail, whatever follows it.
func TestUnknownType(t *testing.T) {
	s := makeSample(t, false)
	h := mustHeader(t, s.files[s.last])
	end := s.tailEnds()[len(s.tailEnds())-1]
	frame := appendFrame(nil, 77, h.recordSeed(LSN(len(s.recs)+1)), []byte("from the future"))
	copy(s.files[s.last][end:], frame)
	r := examine(s.files)
	var v *VersionError
	if !errors.As(r.err, &v) || v.Segment != s.last || !r.unchanged {
		t.Errorf("got %v, unchanged %v", r.err, r.unchanged)
	}
}

// TestDamageBeforeTornTail: the tail is not cut if an older segment is damaged.
func TestDamageBeforeTornTail(t *testing.T) {
	s := makeSample(t, false)
	s.files[s.last][s.tail]++
	s.files[segmentPath(testDir, 1)][headerSize+100]++
	r := examine(s.files)
	var c *CorruptError
	if !errors.As(r.err, &c) || c.Segment != segmentPath(testDir, 1) || !r.unchanged {
		t.Errorf("got %v, unchanged %v", r.err, r.unchanged)
	}
}

// TestDurableRecordsMissing: a log that lost records which its caller knows to
// have been durable is refused and not changed, wherever it was cut.
func TestDurableRecordsMissing(t *testing.T) {
	for _, clean := range []bool{true, false} {
		s := makeSample(t, clean)
		durable := LSN(len(s.recs))
		whole := s.files[s.last]
		first := segmentPath(testDir, 1)
		changes := map[string]func(map[string][]byte){
			"last segment missing":  func(f map[string][]byte) { delete(f, s.last) },
			"first segment missing": func(f map[string][]byte) { delete(f, first) },
			"all missing":           func(f map[string][]byte) { clear(f) },
			"last record cut":       func(f map[string][]byte) { f[s.last] = whole[:s.tailEnds()[len(s.tailEnds())-1]-1] },
			"log halved":            func(f map[string][]byte) { f[s.last] = whole[:len(whole)/2] },
			"last batch zeroed":     func(f map[string][]byte) { clear(f[s.last][s.tail:]) },
		}
		for name, change := range changes {
			files := maps.Clone(s.files)
			files[s.last] = bytes.Clone(whole)
			change(files)
			fs := memFSOf(files)
			known := durable
			if name == "first segment missing" {
				known = LSN(s.safe) - 3 // the records after it begin in the first segment
			}
			options := []Options{{FS: fs, Durable: known}, {FS: fs, Written: known},
				{FS: fs, Durable: 1, Written: known}}
			if name == "first segment missing" {
				options = options[:1] // what was written before Durable need not be in the log
			}
			for _, o := range options {
				o, err := o.validate()
				if err != nil {
					t.Fatal(err)
				}
				err = (&Log{dir: testDir, opts: o}).recover()
				if !corrupt(err) || fs.touched() {
					t.Errorf("clean=%v %s, durable %d, written %d: %v, changed %v", clean, name, o.Durable, o.Written,
						err, fs.touched())
				}
			}
		}
		o, _ := Options{FS: memFSOf(s.files), Durable: durable, Written: durable}.validate()
		if err := (&Log{dir: testDir, opts: o}).recover(); err != nil {
			t.Errorf("clean=%v whole: %v", clean, err)
		}
	}
}

// TestHugeLength: a reader checks a length before it uses it.
func TestHugeLength(t *testing.T) {
	s := makeSample(t, false)
	for _, n := range []uint32{1 << 31, MaxRecordSize + 1, MaxRecordSize, 100_000} {
		files := maps.Clone(s.files)
		data := bytes.Clone(files[s.last])
		binary.LittleEndian.PutUint32(data[s.tail+barrierSize+1:], n)
		files[s.last] = data
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := examine(files)
		runtime.ReadMemStats(&after)
		if r.err != nil || r.torn == nil || len(r.recs) != s.safe {
			t.Errorf("length %d: %d records, %v, %v", n, len(r.recs), r.torn, r.err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("length %d: %d bytes allocated", n, got)
		}
	}
}
