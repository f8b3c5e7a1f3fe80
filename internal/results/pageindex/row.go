package pageindex

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

// Row is what the index has of a page.
type Row struct {
	Offset     int64 // of its line in sitemap.jsonl
	Length     int64 // of that line, with the line feed
	Problems   problems.Set
	Bytes      int64 // content_length; -1 if not known
	Millis     int64 // response_time_ms; -1 if not known
	CheckedAt  time.Time
	Rank       uint32 // its place in the order of host names and URLs
	Status     uint16 // 0 if there was no answer
	Depth      uint16
	ClickDepth int32 // -1 if not known
	Generation uint16
	Outcome    page.Outcome
	Change     page.Change
	Indexable  bool
	Unlinked   bool
	Stale      bool

	urlAt int64
}

// rowSize is the size of a row in the file.
const rowSize = 64

// Values that mean that something is not known.
const (
	noBytes  = math.MaxUint64
	noMillis = math.MaxUint32
	// NoDepth is the click depth of a page that no link leads to.
	NoDepth = math.MaxUint16
)

// Bits of the byte of flags.
const (
	flagIndexable = 1 << iota
	flagUnlinked
	flagStale
)

// Places of fields within a row.
const (
	atOffset     = 0
	atProblems   = 8
	atBytes      = 16
	atURL        = 24
	atChecked    = 32
	atLength     = 40
	atMillis     = 44
	atRank       = 48
	atStatus     = 52
	atDepth      = 54
	atClickDepth = 56
	atGeneration = 58
	atOutcome    = 60
	atFlags      = 61
	atChange     = 62
)

// rowOf reads what the index has of a line, but its place in the files.
func rowOf(l *page.Line) Row {
	r := Row{Bytes: -1, Millis: -1, ClickDepth: -1, CheckedAt: l.CheckedAt.Time, Status: uint16(l.StatusCode),
		Depth:      uint16(min(l.Depth, math.MaxUint16)),
		Generation: uint16(min(l.Generation, math.MaxUint16)), Indexable: l.Indexable, Unlinked: l.Unlinked,
		Stale: l.Stale > 0}
	if l.ContentLength != nil {
		r.Bytes = *l.ContentLength
	}
	if l.ResponseTime != nil {
		r.Millis = min(time.Duration(*l.ResponseTime).Milliseconds(), noMillis-1)
	}
	r.Outcome, _ = page.ParseOutcome(l.Outcome)
	for _, c := range page.Changes() {
		if c.String() == l.Change {
			r.Change = c
		}
	}
	return r
}

// append writes the row. Rank, ClickDepth and Problems are written later.
func (r *Row) append(b []byte) []byte {
	size, ms, checked := uint64(noBytes), uint32(noMillis), int64(math.MinInt64)
	if r.Bytes >= 0 {
		size = uint64(r.Bytes)
	}
	if r.Millis >= 0 {
		ms = uint32(r.Millis)
	}
	if !r.CheckedAt.IsZero() {
		checked = r.CheckedAt.UnixMilli()
	}
	flags := byte(0)
	for i, set := range []bool{r.Indexable, r.Unlinked, r.Stale} {
		if set {
			flags |= 1 << i
		}
	}
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(r.Offset))
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, uint64(r.urlAt))
	b = le.AppendUint64(b, uint64(checked))
	b = le.AppendUint32(b, uint32(r.Length))
	b = le.AppendUint32(b, ms)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, r.Status)
	b = le.AppendUint16(b, r.Depth)
	b = le.AppendUint16(b, NoDepth)
	b = le.AppendUint16(b, r.Generation)
	return append(b, byte(r.Outcome), flags, byte(r.Change), 0)
}

// stored is a row in the form of the file.
type stored []byte

func (s stored) problems() problems.Set {
	return problems.Set(binary.LittleEndian.Uint64(s[atProblems:]))
}
func (s stored) rank() uint32          { return binary.LittleEndian.Uint32(s[atRank:]) }
func (s stored) status() uint16        { return binary.LittleEndian.Uint16(s[atStatus:]) }
func (s stored) depth() uint16         { return binary.LittleEndian.Uint16(s[atDepth:]) }
func (s stored) generation() uint16    { return binary.LittleEndian.Uint16(s[atGeneration:]) }
func (s stored) outcome() page.Outcome { return page.Outcome(s[atOutcome]) }
func (s stored) change() page.Change   { return page.Change(s[atChange]) }
func (s stored) has(flag byte) bool    { return s[atFlags]&flag != 0 }

func (s stored) clickDepth() int32 {
	if d := binary.LittleEndian.Uint16(s[atClickDepth:]); d != NoDepth {
		return int32(d)
	}
	return -1
}

func (s stored) bytes() int64 { return int64(binary.LittleEndian.Uint64(s[atBytes:])) } // noBytes is -1

func (s stored) millis() int64 {
	if ms := binary.LittleEndian.Uint32(s[atMillis:]); ms != noMillis {
		return int64(ms)
	}
	return -1
}

// row reads all fields.
func (s stored) row() Row {
	r := Row{
		Offset: int64(binary.LittleEndian.Uint64(s[atOffset:])),
		Length: int64(binary.LittleEndian.Uint32(s[atLength:])), Problems: s.problems(), Bytes: s.bytes(),
		Millis: s.millis(), Rank: s.rank(),
		Status: s.status(), Depth: s.depth(), ClickDepth: s.clickDepth(), Generation: s.generation(),
		Outcome: s.outcome(), Change: s.change(),
		Indexable: s.has(flagIndexable), Unlinked: s.has(flagUnlinked), Stale: s.has(flagStale),
		urlAt: int64(binary.LittleEndian.Uint64(s[atURL:])),
	}
	if at := int64(binary.LittleEndian.Uint64(s[atChecked:])); at != math.MinInt64 {
		r.CheckedAt = time.UnixMilli(at).UTC()
	}
	return r
}
