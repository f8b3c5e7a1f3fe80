package state

import (
	"errors"
	"fmt"
	"math"

	"github.com/mapwright/mapwright/frontier"
)

// A linkView is a link within a part. Its bytes are valid until the next one is
// read.
type linkView struct {
	key        frontier.Key
	depth      uint16
	priority   uint8
	source     uint8
	hops       uint8
	visit      uint32           // 0 for the first
	before     frontier.Summary // of the visit before
	url        []byte
	parent     []byte
	finish     []byte // as stored in Badger; nil if there is none
	discovered uint64 // as millis
	lastMod    uint64 // as millis
	urlBuf     []byte // memory of url; what the next one is written against
	lastSeen   int64  // milliseconds of discovered, 0 for none: what the next link's is relative to
}

// A partHead is what a part begins with.
type partHead struct {
	partition uint8
	kind      byte
	run       uint64
}

// A visitor is shown the parts of a record in the order in which they stand. Bytes
// are valid during the call only.
type visitor interface {
	part(partHead) error
	finish(k frontier.Key, value []byte) error // value as stored in Badger
	link(index int, l *linkView) error
	visit(index int, l *linkView) error
	leased(k frontier.Key) error
	returned(k frontier.Key) error
	host(h frontier.HostID, value []byte) error // value as stored in Badger
	cursor(h frontier.HostID, low frontier.Cursor) error
	origin(h frontier.HostID, origin, value []byte) error // value as stored in Badger
	fact(partition uint8, name, value []byte, set bool) error
	inFlight(k frontier.Key, ends int) error
}

var errDecode = &CorruptError{What: "log entry", Reason: "it does not decode"}

// walk shows an encoded record to v.
func walk(b []byte, v visitor) error {
	r := reader{b: b}
	n, err := r.parts()
	if err != nil {
		return err
	}
	for ; n > 0 && !r.bad; n-- {
		part := r.sized()
		if err := walkPart(&part, v); err != nil {
			return err
		}
	}
	if r.bad {
		return errDecode
	}
	return nil
}

// parts reads the head of a record: how many parts follow.
func (r *reader) parts() (uint64, error) {
	version := r.u8()
	switch {
	case r.bad || version == 0:
		return 0, errDecode
	case version != formatVersion:
		return 0, &VersionError{What: "log entry", Found: uint64(version), Known: formatVersion}
	}
	return r.upTo(partitions), nil
}

func walkPart(r *reader, v visitor) error {
	head := partHead{partition: r.u8(), kind: r.u8(), run: r.uvarint()}
	if r.bad || head.kind > kindClosed {
		return errDecode
	}
	if err := v.part(head); err != nil {
		return err
	}
	index := 0 // of the next link
	for len(r.b) > 0 && !r.bad {
		tag, n := r.u8(), r.upTo(math.MaxUint32)
		var link linkView
		for ; n > 0 && !r.bad; n-- {
			e := r.sized()
			var err error
			switch tag {
			case tagLinks, tagVisits:
				err = link.show(&e, tag, head.partition, index, v)
				index++
			default:
				err = walkElement(&e, tag, head.partition, v)
			}
			if err != nil {
				return err
			}
		}
	}
	if r.bad {
		return errDecode
	}
	return nil
}

func walkElement(e *reader, tag byte, partition uint8, v visitor) error {
	switch tag {
	case tagFinish:
		if k := e.keyIn(partition); !e.bad {
			return v.finish(k, e.b)
		}
	case tagLeased:
		e.u8() // flags
		if k := e.keyIn(partition); !e.bad {
			return v.leased(k)
		}
	case tagReturned:
		if k := e.keyIn(partition); !e.bad {
			return v.returned(k)
		}
	case tagHosts:
		if h := e.hostIn(partition); !e.bad {
			return v.host(h, e.b)
		}
	case tagCursors:
		h, low := e.hostIn(partition), e.cursor()
		if !e.bad {
			return v.cursor(h, low)
		}
	case tagOrigins:
		h, origin := e.hostIn(partition), e.bytes()
		if !e.bad {
			return v.origin(h, origin, e.b)
		}
	case tagFacts:
		name, set, value := e.bytes(), e.u8(), e.bytes()
		if !e.bad {
			return v.fact(partition, name, value, set != 0)
		}
	case tagInFlight:
		k := e.keyIn(partition)
		n, err := e.inFlight()
		if err == nil && !e.bad {
			return v.inFlight(k, n)
		}
	default:
		return &CorruptError{What: "log entry", Reason: fmt.Sprintf("it has a section of unknown kind %d", tag)}
	}
	return errDecode
}

// hostIn reads a HostID, which must be of the partition.
func (r *reader) hostIn(partition uint8) frontier.HostID {
	h := r.host()
	if h.Partition() != partition {
		r.fail()
	}
	return h
}

func (r *reader) keyIn(partition uint8) frontier.Key {
	k := r.key()
	if k.Host.Partition() != partition {
		r.fail()
	}
	return k
}

// show reads the next link, given the one before it in l, and shows it to v.
func (l *linkView) show(e *reader, tag byte, partition uint8, index int, v visitor) error {
	l.read(e)
	if e.bad || l.key.Host.Partition() != partition || (tag == tagVisits) != (l.visit > 1) {
		return errDecode
	}
	if tag == tagVisits {
		return v.visit(index, l)
	}
	return v.link(index, l)
}

func (l *linkView) read(e *reader) {
	flags := e.u8()
	if flags&linkSameHost == 0 {
		l.key.Host = e.host()
	}
	l.key.Hi, l.key.Lo = e.u64(), e.u64()
	l.priority, l.source = e.u8(), e.u8()
	l.depth = uint16(e.upTo(math.MaxUint16))
	keep := e.upTo(uint64(len(l.urlBuf)))
	l.urlBuf = append(l.urlBuf[:keep], e.bytes()...)
	l.url = l.urlBuf
	if flags&linkSameParent == 0 {
		l.parent = e.bytes()
	}
	l.discovered = 0
	if flags&linkDiscovered != 0 {
		l.lastSeen += unzigzag(e.uvarint())
		l.discovered = zigzag(l.lastSeen) + 1
	} else {
		l.lastSeen = 0
	}
	l.lastMod, l.hops, l.finish, l.visit, l.before = 0, 0, nil, 0, frontier.Summary{}
	if flags&linkLastMod != 0 {
		l.lastMod = e.uvarint()
	}
	if flags&linkHops != 0 {
		l.hops = e.u8()
	}
	if flags&linkFinish != 0 {
		l.finish = e.bytes()
	}
	if flags&linkVisit != 0 {
		l.visit, l.before = uint32(e.upTo(math.MaxUint32)), e.summary()
	}
}

// noVisitor looks at nothing; embed it to look at something.
type noVisitor struct{}

func (noVisitor) part(partHead) error                           { return nil }
func (noVisitor) finish(frontier.Key, []byte) error             { return nil }
func (noVisitor) link(int, *linkView) error                     { return nil }
func (noVisitor) visit(int, *linkView) error                    { return nil }
func (noVisitor) leased(frontier.Key) error                     { return nil }
func (noVisitor) returned(frontier.Key) error                   { return nil }
func (noVisitor) host(frontier.HostID, []byte) error            { return nil }
func (noVisitor) cursor(frontier.HostID, frontier.Cursor) error { return nil }
func (noVisitor) origin(frontier.HostID, []byte, []byte) error  { return nil }
func (noVisitor) fact(uint8, []byte, []byte, bool) error        { return nil }
func (noVisitor) inFlight(frontier.Key, int) error              { return nil }

// errStopped ends a walk early.
var errStopped = errors.New("stopped")
