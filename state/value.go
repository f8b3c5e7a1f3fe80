package state

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// The values in Badger. Each begins with its format version; fields may be
// added at the end without a new one.

func valueReader(what string, b []byte) (reader, error) {
	r := reader{b: b}
	switch v := r.u8(); v {
	case formatVersion:
		return r, nil
	case 0:
		return r, &CorruptError{What: what, Reason: "it has no version"}
	default:
		return r, &VersionError{What: what, Found: uint64(v), Known: formatVersion}
	}
}

func (r *reader) done(what string) error {
	if r.bad {
		return &CorruptError{What: what, Reason: "it does not decode"}
	}
	return nil
}

// urlOf is the URL of a stored text, which is empty for none.
func urlOf(r *reader, text string) frontier.URL {
	if text == "" {
		return frontier.URL{}
	}
	u, ok := urlnorm.FromCanonical(text)
	if !ok {
		r.fail()
	}
	return u
}

// appendDiscovery appends the value of a u entry.
func appendDiscovery(dst []byte, l *linkView) []byte {
	dst = append(dst, formatVersion, l.priority, l.source)
	dst = binary.AppendUvarint(dst, uint64(l.depth))
	dst = binary.AppendUvarint(dst, l.discovered)
	dst = binary.AppendUvarint(dst, l.lastMod)
	dst = appendBytes(dst, l.url)
	n := min(len(l.url), len(l.parent))
	for i := range n {
		if l.url[i] != l.parent[i] {
			n = i
			break
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = appendBytes(dst, l.parent[n:])
	return append(dst, l.hops)
}

func decodeDiscovery(k frontier.Key, b []byte) (frontier.Link, error) {
	const what = "discovery"
	r, err := valueReader(what, b)
	if err != nil {
		return frontier.Link{}, err
	}
	l := frontier.Link{Key: k, Priority: r.u8(), Source: r.u8(), Depth: uint16(r.upTo(math.MaxUint16))}
	l.Discovered, l.LastMod = r.time(), r.time()
	l.URL = urlOf(&r, string(r.bytes()))
	n := r.upTo(uint64(len(l.URL.String())))
	l.Parent = urlOf(&r, l.URL.String()[:n]+string(r.bytes()))
	l.Hops = r.u8()
	return l, r.done(what)
}

// Flags of a finish.
const finishCounted = 1 // it counts towards page limits

// appendFinish appends the value of an f entry.
func appendFinish(dst []byte, f *frontier.Finish) []byte {
	dst = append(dst, formatVersion, f.Outcome, flag(f.Counted, finishCounted))
	dst = binary.AppendUvarint(dst, uint64(f.Status))
	dst = binary.AppendUvarint(dst, uint64(f.Attempts))
	dst = binary.AppendUvarint(dst, uint64(f.Visit))
	dst = binary.AppendUvarint(dst, uint64(f.Generation))
	dst = binary.AppendUvarint(dst, f.Bytes)
	if f.Visit > 1 {
		dst = appendSummary(dst, f.Before)
	}
	dst = binary.AppendUvarint(dst, millis(f.CheckedAt))
	dst = appendString(dst, f.RedirectTo)
	return appendBytes(dst, f.Facts)
}

func decodeFinish(k frontier.Key, b []byte) (*frontier.Finish, error) {
	const what = "finish"
	r, err := valueReader(what, b)
	if err != nil {
		return nil, err
	}
	f := &frontier.Finish{Key: k}
	r.finishHead(f)
	f.CheckedAt = r.time()
	f.RedirectTo = string(r.bytes())
	f.Facts = cloned(r.bytes())
	return f, r.done(what)
}

// finishHead reads the fields that counters are made of.
func (r *reader) finishHead(f *frontier.Finish) {
	f.Outcome = r.u8()
	f.Counted = r.u8()&finishCounted != 0
	f.Status = uint16(r.upTo(math.MaxUint16))
	f.Attempts = uint16(r.upTo(math.MaxUint16))
	f.Visit, f.Generation = uint32(r.upTo(math.MaxUint32)), uint32(r.upTo(math.MaxUint32))
	f.Bytes = r.uvarint()
	if f.Visit > 1 {
		f.Before = r.summary()
	}
}

func appendSummary(dst []byte, s frontier.Summary) []byte {
	dst = append(dst, s.Outcome, flag(s.Counted, finishCounted))
	dst = binary.AppendUvarint(dst, uint64(s.Status))
	return binary.AppendUvarint(dst, s.Bytes)
}

func (r *reader) summary() frontier.Summary {
	return frontier.Summary{Outcome: r.u8(), Counted: r.u8()&finishCounted != 0, Status: uint16(r.upTo(math.MaxUint16)), Bytes: r.uvarint()}
}

// Flags of a host fact.
const (
	hostBlocked   = 1
	hostAbandoned = 2
)

// appendHost appends the value of an h entry.
func appendHost(dst []byte, h *frontier.HostFact) []byte {
	dst = appendString(append(dst, formatVersion), h.Name)
	dst = append(dst, flag(h.Blocked, hostBlocked)|flag(h.Abandoned, hostAbandoned))
	for _, d := range []time.Duration{h.Learned.Delay, h.Learned.Floor} {
		dst = binary.AppendUvarint(dst, zigzag(d.Milliseconds()))
	}
	for _, t := range []time.Time{h.Learned.FloorAt, h.Learned.LastSuccess, h.Learned.AskedUntil} {
		dst = binary.AppendUvarint(dst, millis(t))
	}
	return binary.AppendUvarint(dst, zigzag(h.Pages))
}

func decodeHost(h frontier.HostID, b []byte) (frontier.HostFact, error) {
	const what = "host fact"
	r, err := valueReader(what, b)
	if err != nil {
		return frontier.HostFact{}, err
	}
	f := frontier.HostFact{Host: h, Name: string(r.bytes())}
	flags := r.u8()
	f.Blocked, f.Abandoned = flags&hostBlocked != 0, flags&hostAbandoned != 0
	duration := func() time.Duration { return time.Duration(unzigzag(r.uvarint())) * time.Millisecond }
	f.Learned.Delay, f.Learned.Floor = duration(), duration()
	f.Learned.FloorAt, f.Learned.LastSuccess, f.Learned.AskedUntil = r.time(), r.time(), r.time()
	f.Pages = unzigzag(r.uvarint())
	return f, r.done(what)
}

// Flags of an origin fact.
const (
	originSitemapsRequested = 1
	originPacked            = 2 // the body is compressed with zstd
)

// appendOrigin appends the value of an o entry.
func (c *bodies) appendOrigin(dst []byte, o *frontier.OriginFact) []byte {
	body, packed := c.pack(o.Body)
	if !packed {
		body = o.Body
	}
	dst = append(dst, formatVersion, uint8(o.State), flag(o.SitemapsRequested, originSitemapsRequested)|flag(packed, originPacked))
	dst = binary.AppendUvarint(dst, uint64(o.Status))
	dst = binary.AppendUvarint(dst, millis(o.Fetched))
	dst = binary.AppendUvarint(dst, millis(o.Expires))
	return appendBytes(dst, body)
}

func (c *bodies) decodeOrigin(h frontier.HostID, origin string, b []byte) (frontier.OriginFact, error) {
	const what = "origin fact"
	r, err := valueReader(what, b)
	if err != nil {
		return frontier.OriginFact{}, err
	}
	o := frontier.OriginFact{Host: h, Origin: origin, State: frontier.OriginState(r.u8())}
	flags := r.u8()
	o.SitemapsRequested = flags&originSitemapsRequested != 0
	o.Status = uint16(r.upTo(math.MaxUint16))
	o.Fetched, o.Expires = r.time(), r.time()
	body := r.bytes()
	if flags&originPacked == 0 {
		o.Body = cloned(body)
	} else if body, err = c.unpack(body); err != nil {
		return o, &CorruptError{What: what, Reason: "its body does not decompress: " + err.Error()}
	} else if len(body) > 0 {
		o.Body = body
	}
	return o, r.done(what)
}

// appendInFlight appends the value of an x entry: how many unclean ends found a
// page in flight.
func appendInFlight(dst []byte, ends int) []byte {
	return binary.AppendUvarint(append(dst, formatVersion), uint64(ends))
}

// inFlight reads the value of an x entry.
func (r *reader) inFlight() (ends int, err error) {
	const what = "in-flight mark"
	*r, err = valueReader(what, r.b)
	if err != nil {
		return 0, err
	}
	ends = int(r.upTo(math.MaxInt32))
	return ends, r.done(what)
}

func appendCursor(dst []byte, c frontier.Cursor) []byte {
	dst = append(dst, c.Priority)
	dst = binary.AppendUvarint(dst, uint64(c.Position))
	return binary.AppendUvarint(dst, uint64(c.Index))
}

func (r *reader) cursor() frontier.Cursor {
	return frontier.Cursor{Priority: r.u8(), Position: frontier.Position(r.uvarint()), Index: uint32(r.upTo(math.MaxUint32))}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
