package state

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// The values in Badger. Each begins with its format version; fields may be
// added at the end without a new one.

func valueReader(what string, b []byte) (reader, error) {
	r := reader{b: b}
	if v := r.u8(); v > formatVersion {
		return r, &VersionError{What: what, Found: uint64(v), Known: formatVersion}
	} else if v == 0 {
		return r, &CorruptError{What: what, Reason: "it has no version"}
	}
	return r, nil
}

func (r *reader) done(what string) error {
	if r.bad {
		return &CorruptError{What: what, Reason: "it does not decode"}
	}
	return nil
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
	return appendBytes(dst, l.extra)
}

func decodeDiscovery(k urlnorm.Key, b []byte) (Link, error) {
	const what = "discovery"
	r, err := valueReader(what, b)
	if err != nil {
		return Link{}, err
	}
	l := Link{Key: k, Priority: r.u8(), Source: r.u8(), Depth: uint16(r.upTo(math.MaxUint16))}
	l.DiscoveredAt, l.LastMod = r.time(), r.time()
	l.URL = string(r.bytes())
	n := r.upTo(uint64(len(l.URL)))
	if rest := r.bytes(); n > 0 || len(rest) > 0 {
		l.Parent = l.URL[:n] + string(rest)
	}
	l.Extra = cloned(r.bytes())
	return l, r.done(what)
}

// appendFinish appends the value of an f entry.
func appendFinish(dst []byte, f *Finish) []byte {
	dst = append(dst, formatVersion, f.Outcome)
	dst = binary.AppendUvarint(dst, uint64(f.Status))
	dst = binary.AppendUvarint(dst, uint64(f.Attempts))
	dst = binary.AppendUvarint(dst, uint64(f.Generation))
	dst = binary.AppendUvarint(dst, f.Bytes)
	dst = binary.AppendUvarint(dst, millis(f.CrawledAt))
	dst = binary.AppendUvarint(dst, millis(f.NextFetch))
	dst = appendString(dst, f.RedirectTo)
	return appendBytes(dst, f.Facts)
}

func decodeFinish(k urlnorm.Key, b []byte) (*Finish, error) {
	const what = "finish"
	r, err := valueReader(what, b)
	if err != nil {
		return nil, err
	}
	f := &Finish{Key: k}
	r.finishHead(f)
	f.CrawledAt, f.NextFetch = r.time(), r.time()
	f.RedirectTo = string(r.bytes())
	f.Facts = cloned(r.bytes())
	return f, r.done(what)
}

// finishHead reads the fields that counters are made of.
func (r *reader) finishHead(f *Finish) {
	f.Outcome = r.u8()
	f.Status = uint16(r.upTo(math.MaxUint16))
	f.Attempts = uint16(r.upTo(math.MaxUint16))
	f.Generation = uint32(r.upTo(math.MaxUint32))
	f.Bytes = r.uvarint()
}

// appendHost appends the value of an h entry.
func appendHost(dst []byte, h *HostFact) []byte {
	dst = append(dst, formatVersion)
	dst = appendString(dst, h.Name)
	return appendBytes(dst, h.Data)
}

func decodeHost(h urlnorm.HostID, b []byte) (HostFact, error) {
	const what = "host fact"
	r, err := valueReader(what, b)
	if err != nil {
		return HostFact{}, err
	}
	f := HostFact{Host: h, Name: string(r.bytes()), Data: cloned(r.bytes())}
	return f, r.done(what)
}

// appendRobots appends the value of an r entry.
func appendRobots(dst []byte, f *RobotsFact) []byte {
	dst = append(dst, formatVersion)
	dst = binary.AppendUvarint(dst, millis(f.FetchedAt))
	dst = binary.AppendUvarint(dst, millis(f.Expires))
	return appendBytes(dst, f.Data)
}

func decodeRobots(origin string, b []byte) (RobotsFact, error) {
	const what = "robots fact"
	r, err := valueReader(what, b)
	if err != nil {
		return RobotsFact{}, err
	}
	f := RobotsFact{Origin: origin, FetchedAt: r.time(), Expires: r.time(), Data: cloned(r.bytes())}
	return f, r.done(what)
}

func appendCursor(dst []byte, c Cursor) []byte {
	dst = append(dst, c.Priority)
	dst = binary.AppendUvarint(dst, c.Seq)
	return binary.AppendUvarint(dst, uint64(c.Index))
}

func (r *reader) cursor() Cursor {
	return Cursor{Priority: r.u8(), Seq: r.uvarint(), Index: uint32(r.upTo(math.MaxUint32))}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
