package record

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/disk"
)

// A LinkView is a link within a part. Its bytes are valid until the next one is
// read.
type LinkView struct {
	Key        frontier.Key
	depth      uint16
	Priority   uint8
	source     uint8
	hops       uint8
	repeats    uint8
	Visit      uint32 // 0 for the first
	Sitemap    bool
	before     frontier.Summary // of the visit before
	url        []byte
	parent     []byte
	Finish     []byte // as stored in Badger; nil if there is none
	discovered uint64 // as millis
	lastMod    uint64 // as millis
	urlBuf     []byte // memory of url; what the next one is written against
	lastSeen   int64  // milliseconds of discovered, 0 for none: what the next link's is relative to
}

// A PartHead is what a part begins with.
type PartHead struct {
	Partition uint8
	Kind      byte
	Run       uint64
}

// A Visitor is shown the parts of a record in the order in which they stand. Bytes
// are valid during the call only.
type Visitor interface {
	Part(PartHead) error
	Finish(k frontier.Key, value []byte) error // value as stored in Badger
	Link(index int, l *LinkView) error
	Visit(index int, l *LinkView) error
	Leased(k frontier.Key, alone bool) error
	Returned(k frontier.Key) error
	Host(h frontier.HostID, value []byte) error // value as stored in Badger
	Cursor(h frontier.HostID, low frontier.Cursor) error
	Origin(h frontier.HostID, origin, value []byte) error // value as stored in Badger
	Fact(partition uint8, name, value []byte, set bool) error
	InFlight(k frontier.Key, ends UncleanEnds) error
	Voucher(v frontier.Voucher) error
	Skip(s frontier.Skip) error
	Evidence(e frontier.Evidence) error
	Named(n frontier.Named) error
	Received(m frontier.Mark) error
	Sent(l *LinkView) error
	// SentVoucher is a host that vouches for the sitemap that was sent before it.
	SentVoucher(h frontier.HostID) error
	Asked(q frontier.RobotsQuestion) error
	// NotBefore is when a host may be asked again after its partition was closed; for
	// the partition itself, a HostID without a host, it is when that was.
	NotBefore(h frontier.HostID, at time.Time) error
}

// ErrDecode says that a record is damaged.
var ErrDecode = &disk.CorruptError{What: "log entry", Reason: "it does not decode"}

// Walk shows an encoded record to v.
func Walk(b []byte, v Visitor) error {
	r := Reader{B: b}
	n, err := r.Parts()
	if err != nil {
		return err
	}
	for ; n > 0 && !r.Bad; n-- {
		part := r.Sized()
		if err := walkPart(&part, v); err != nil {
			return err
		}
	}
	if r.Bad {
		return ErrDecode
	}
	return nil
}

// Parts reads the head of a record: how many parts follow.
func (r *Reader) Parts() (uint64, error) {
	version := r.U8()
	switch {
	case r.Bad || version == 0:
		return 0, ErrDecode
	case version != Version:
		return 0, &disk.VersionError{What: "log entry", Found: uint64(version), Known: Version}
	}
	return r.UpTo(Partitions), nil
}

func walkPart(r *Reader, v Visitor) error {
	head := PartHead{Partition: r.U8(), Kind: r.U8(), Run: r.Uvarint()}
	if r.Bad || head.Kind > kindClosed {
		return ErrDecode
	}
	if err := v.Part(head); err != nil {
		return err
	}
	index := 0 // of the next link
	var link LinkView
	for len(r.B) > 0 && !r.Bad {
		tag, n := r.U8(), r.UpTo(math.MaxUint32)
		link = LinkView{}
		for ; n > 0 && !r.Bad; n-- {
			e := r.Sized()
			var err error
			switch tag {
			case tagLinks, tagVisits:
				err = link.show(&e, tag, head.Partition, index, v)
				index++
			case tagSent:
				err = link.showSent(&e, head.Partition, v)
			default:
				err = walkElement(&e, tag, head.Partition, v)
			}
			if err != nil {
				return err
			}
		}
	}
	if r.Bad {
		return ErrDecode
	}
	return nil
}

func walkElement(e *Reader, tag byte, partition uint8, visitor Visitor) error {
	switch tag {
	case tagFinish:
		if k := e.keyIn(partition); !e.Bad {
			return visitor.Finish(k, e.B)
		}
	case tagLeased:
		flags := e.U8()
		if k := e.keyIn(partition); !e.Bad {
			return visitor.Leased(k, flags&leasedAlone != 0)
		}
	case tagReturned:
		if k := e.keyIn(partition); !e.Bad {
			return visitor.Returned(k)
		}
	case tagHosts:
		if h := e.hostIn(partition); !e.Bad {
			return visitor.Host(h, e.B)
		}
	case tagCursors:
		h, low := e.hostIn(partition), e.Cursor()
		if !e.Bad {
			return visitor.Cursor(h, low)
		}
	case tagOrigins:
		h, origin := e.hostIn(partition), e.Bytes()
		if !e.Bad {
			return visitor.Origin(h, origin, e.B)
		}
	case tagVouchers:
		v := frontier.Voucher{Key: e.keyIn(partition), Host: e.host(), Visit: uint32(e.UpTo(math.MaxUint32))}
		if !e.Bad {
			return visitor.Voucher(v)
		}
	case tagFacts:
		name, set, value := e.Bytes(), e.U8(), e.Bytes()
		if !e.Bad {
			return visitor.Fact(partition, name, value, set != 0)
		}
	case tagInFlight:
		k := e.keyIn(partition)
		n, err := e.InFlight()
		if err == nil && !e.Bad {
			return visitor.InFlight(k, n)
		}
	case tagSkips:
		if s := (frontier.Skip{Partition: partition, Reason: e.U8(), Count: e.Uvarint()}); !e.Bad {
			return visitor.Skip(s)
		}
	case tagEvidence:
		if ev := e.evidence(partition); !e.Bad {
			return visitor.Evidence(ev)
		}
	case tagNamed:
		n := frontier.Named{Key: e.keyIn(partition)}
		flags := e.U8()
		n.Listed, n.Linked = flags&NamedListed != 0, flags&NamedLinked != 0
		if n.LastMod, n.Generation = e.Time(), uint32(e.UpTo(math.MaxUint32)); !e.Bad {
			return visitor.Named(n)
		}
	case tagReceived:
		m := frontier.Mark{Partition: partition}
		copy(m.Session[:], e.Take(uint64(len(m.Session))))
		if m.Batch = e.Uvarint(); !e.Bad {
			return visitor.Received(m)
		}
	case tagNotBefore:
		h, at := e.hostIn(partition), e.Time()
		if !e.Bad {
			return visitor.NotBefore(h, at)
		}
	default:
		return &disk.CorruptError{What: "log entry", Reason: fmt.Sprintf("it has a section of unknown kind %d", tag)}
	}
	return ErrDecode
}

// hostIn reads a HostID, which must be of the partition.
func (r *Reader) hostIn(partition uint8) frontier.HostID {
	h := r.host()
	if h.Partition() != partition {
		r.Fail()
	}
	return h
}

func (r *Reader) keyIn(partition uint8) frontier.Key {
	k := r.Key()
	if k.Host.Partition() != partition {
		r.Fail()
	}
	return k
}

// show reads the next link, given the one before it in l, and shows it to v.
func (l *LinkView) show(e *Reader, tag byte, partition uint8, index int, v Visitor) error {
	l.read(e)
	if e.Bad || l.Key.Host.Partition() != partition || (tag == tagVisits) != (l.Visit > 1) {
		return ErrDecode
	}
	if tag == tagVisits {
		return v.Visit(index, l)
	}
	return v.Link(index, l)
}

// showSent does the same for a link that was sent.
func (l *LinkView) showSent(e *Reader, partition uint8, v Visitor) error {
	kind := e.U8()
	if kind == sentAsked {
		q, err := readAsked(e)
		if err != nil || q.Host.Partition() != partition {
			return ErrDecode
		}
		return v.Asked(q)
	}
	if kind == sentVoucher {
		h := e.host()
		if e.Bad {
			return ErrDecode
		}
		return v.SentVoucher(h)
	}
	inner := e.Sized()
	l.read(&inner)
	if e.Bad || inner.Bad || kind != sentLink || l.Key.Host.Partition() != partition {
		return ErrDecode
	}
	return v.Sent(l)
}

func (l *LinkView) read(e *Reader) {
	flags := e.U8()
	if flags&linkSameHost == 0 {
		l.Key.Host = e.host()
	}
	l.Key.Hi, l.Key.Lo = e.U64(), e.U64()
	l.Priority, l.source = e.U8(), e.U8()
	l.depth = uint16(e.UpTo(math.MaxUint16))
	keep := e.UpTo(uint64(len(l.urlBuf)))
	l.urlBuf = append(l.urlBuf[:keep], e.Bytes()...)
	l.url = l.urlBuf
	if flags&linkSameParent == 0 {
		l.parent = e.Bytes()
	}
	l.discovered = 0
	if flags&linkDiscovered != 0 {
		l.lastSeen += unzigzag(e.Uvarint())
		l.discovered = zigzag(l.lastSeen) + 1
	} else {
		l.lastSeen = 0
	}
	if l.Sitemap = flags&linkSitemap != 0; l.Sitemap != (l.Priority == frontier.PrioritySitemap) {
		e.Fail() // a queue holds either sitemaps or pages
	}
	l.lastMod, l.hops, l.Finish, l.Visit, l.before = 0, 0, nil, 0, frontier.Summary{}
	if flags&linkLastMod != 0 {
		l.lastMod = e.Uvarint()
	}
	if flags&linkHops != 0 {
		l.hops = e.U8()
	}
	if flags&linkFinish != 0 {
		l.Finish = e.Bytes()
	}
	if flags&linkVisit != 0 {
		l.Visit, l.before = uint32(e.UpTo(math.MaxUint32)), e.summary()
	}
	l.repeats = e.lastU8()
}

// NoVisitor looks at nothing; embed it to look at something.
type NoVisitor struct{}

func (NoVisitor) Part(PartHead) error                           { return nil }
func (NoVisitor) Finish(frontier.Key, []byte) error             { return nil }
func (NoVisitor) Link(int, *LinkView) error                     { return nil }
func (NoVisitor) Visit(int, *LinkView) error                    { return nil }
func (NoVisitor) Leased(frontier.Key, bool) error               { return nil }
func (NoVisitor) Returned(frontier.Key) error                   { return nil }
func (NoVisitor) Host(frontier.HostID, []byte) error            { return nil }
func (NoVisitor) Cursor(frontier.HostID, frontier.Cursor) error { return nil }
func (NoVisitor) Origin(frontier.HostID, []byte, []byte) error  { return nil }
func (NoVisitor) Fact(uint8, []byte, []byte, bool) error        { return nil }
func (NoVisitor) InFlight(frontier.Key, UncleanEnds) error      { return nil }
func (NoVisitor) Voucher(frontier.Voucher) error                { return nil }
func (NoVisitor) Skip(frontier.Skip) error                      { return nil }
func (NoVisitor) Evidence(frontier.Evidence) error              { return nil }
func (NoVisitor) Named(frontier.Named) error                    { return nil }
func (NoVisitor) Received(frontier.Mark) error                  { return nil }
func (NoVisitor) Sent(*LinkView) error                          { return nil }
func (NoVisitor) SentVoucher(frontier.HostID) error             { return nil }
func (NoVisitor) Asked(frontier.RobotsQuestion) error           { return nil }
func (NoVisitor) NotBefore(frontier.HostID, time.Time) error    { return nil }

// ErrStopped ends a walk early.
var ErrStopped = errors.New("stopped")
