package pageindex

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/mapwright/mapwright/internal/page"
	"github.com/mapwright/mapwright/internal/results/problems"
)

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
	_ // stale, which no filter asks for
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

// appendRow appends the row of a page. Its rank, click depth and problems are written later. offset and length are the
// place of its line in sitemap.jsonl; urlAt is the place of its URL behind the rows.
func appendRow(b []byte, l *page.Line, offset uint64, length uint32, urlAt uint64) []byte {
	size, ms, checked := uint64(noBytes), uint32(noMillis), int64(math.MinInt64)
	if l.ContentLength != nil && *l.ContentLength >= 0 {
		size = uint64(*l.ContentLength)
	}
	if l.ResponseTime != nil && *l.ResponseTime >= 0 {
		ms = uint32(min(time.Duration(*l.ResponseTime).Milliseconds(), noMillis-1))
	}
	if !l.CheckedAt.IsZero() {
		checked = l.CheckedAt.UnixMilli()
	}
	flags := byte(0)
	for i, set := range []bool{l.Indexable, l.Unlinked, l.Stale > 0} {
		if set {
			flags |= 1 << i
		}
	}
	outcome, _ := page.ParseOutcome(l.Outcome)
	change := page.NoChange
	for _, c := range page.Changes() {
		if c.String() == l.Change {
			change = c
		}
	}
	le := binary.LittleEndian
	b = le.AppendUint64(b, offset)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, urlAt)
	b = le.AppendUint64(b, uint64(checked))
	b = le.AppendUint32(b, length)
	b = le.AppendUint32(b, ms)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, uint16(l.StatusCode))
	b = le.AppendUint16(b, uint16(min(l.Depth, math.MaxUint16)))
	b = le.AppendUint16(b, NoDepth)
	b = le.AppendUint16(b, uint16(min(l.Generation, math.MaxUint16)))
	return append(b, byte(outcome), flags, byte(change), 0)
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

// hit is the page of the row.
func (s stored) hit(url []byte) Hit {
	return Hit{URL: string(url), ClickDepth: s.clickDepth(), Problems: s.problems(),
		offset: int64(binary.LittleEndian.Uint64(s[atOffset:])), length: binary.LittleEndian.Uint32(s[atLength:])}
}
