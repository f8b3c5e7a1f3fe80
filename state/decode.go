package state

import (
	"errors"
	"fmt"
	"math"

	"github.com/mapwright/mapwright/internal/urlnorm"
)

// A linkView is a link within a record. Its bytes are valid until the next
// one is read.
type linkView struct {
	key        urlnorm.Key
	depth      uint16
	priority   uint8
	source     uint8
	url        []byte
	parent     []byte
	extra      []byte
	discovered uint64 // as millis
	lastMod    uint64 // as millis
	urlBuf     []byte // memory of url; what the next one is written against
	lastSeen   int64  // milliseconds of discovered, 0 for none: what the next link's is relative to
}

// A visitor is shown the parts of a log entry in the order in which they
// stand. Bytes are valid during the call only.
type visitor interface {
	head(kind byte, epoch uint64) error
	finish(k urlnorm.Key, value []byte) error // value as stored in Badger
	link(index int, l *linkView) error
	leased(k urlnorm.Key) error
	returned(k urlnorm.Key) error
	host(h urlnorm.HostID, value []byte) error // value as stored in Badger
	cursor(h urlnorm.HostID, low Cursor) error
	robots(origin, value []byte) error // value as stored in Badger
	run(name []byte, value []byte, set bool) error
	crashed(k urlnorm.Key, times int) error
}

var errDecode = &CorruptError{What: "log entry", Reason: "it does not decode"}

// walk shows the parts of an encoded log entry to v.
func walk(b []byte, v visitor) error {
	r := reader{b: b}
	version, kind := r.u8(), r.u8()
	if r.bad {
		return errDecode
	}
	if version > formatVersion {
		return &VersionError{What: "log entry", Found: uint64(version), Known: formatVersion}
	}
	if version == 0 || kind > kindEnd {
		return errDecode
	}
	epoch := r.uvarint()
	if r.bad {
		return errDecode
	}
	if err := v.head(kind, epoch); err != nil {
		return err
	}
	for len(r.b) > 0 && !r.bad {
		tag, n := r.u8(), r.upTo(math.MaxUint32)
		if err := walkSection(&r, tag, n, v); err != nil {
			return err
		}
	}
	if r.bad {
		return errDecode
	}
	return nil
}

func walkSection(r *reader, tag byte, n uint64, v visitor) error {
	if tag == tagLinks {
		return walkLinks(r, n, v)
	}
	for i := uint64(0); i < n && !r.bad; i++ {
		var err error
		switch tag {
		case tagLeased, tagReturned:
			k := r.key()
			switch {
			case r.bad:
			case tag == tagLeased:
				err = v.leased(k)
			default:
				err = v.returned(k)
			}
		case tagFinish, tagHosts, tagCursors, tagRobots, tagRun, tagCrashed:
			e := r.sized()
			err = walkElement(&e, tag, v)
		default:
			return &CorruptError{What: "log entry", Reason: fmt.Sprintf("it has a section of unknown kind %d", tag)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walkLinks reads a section of links, each from what it does not share with the one
// before.
func walkLinks(r *reader, n uint64, v visitor) error {
	var link linkView
	for i := uint64(0); i < n && !r.bad; i++ {
		e := r.sized()
		link.read(&e)
		if e.bad {
			return errDecode
		}
		if err := v.link(int(i), &link); err != nil {
			return err
		}
	}
	return nil
}

func walkElement(e *reader, tag byte, v visitor) error {
	switch tag {
	case tagFinish:
		if k := e.key(); !e.bad {
			return v.finish(k, e.b)
		}
	case tagHosts:
		if h := urlnorm.HostID(e.u64()); !e.bad {
			return v.host(h, e.b)
		}
	case tagCursors:
		h, low := urlnorm.HostID(e.u64()), e.cursor()
		if !e.bad {
			return v.cursor(h, low)
		}
	case tagRobots:
		if origin := e.bytes(); !e.bad {
			return v.robots(origin, e.b)
		}
	case tagRun:
		name, set, value := e.bytes(), e.u8(), e.bytes()
		if !e.bad {
			return v.run(name, value, set != 0)
		}
	case tagCrashed:
		k, n := e.key(), e.upTo(math.MaxInt32)
		if !e.bad {
			return v.crashed(k, int(n))
		}
	}
	return errDecode
}

// read takes the next link, given the one before it in l.
func (l *linkView) read(e *reader) {
	flags := e.u8()
	if flags&linkSameHost == 0 {
		l.key.Host = urlnorm.HostID(e.u64())
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
	l.lastMod = 0
	if flags&linkLastMod != 0 {
		l.lastMod = e.uvarint()
	}
	l.extra = nil
	if flags&linkExtra != 0 {
		l.extra = e.bytes()
	}
}

// noVisitor looks at nothing; embed it to look at something.
type noVisitor struct{}

func (noVisitor) head(byte, uint64) error             { return nil }
func (noVisitor) finish(urlnorm.Key, []byte) error    { return nil }
func (noVisitor) link(int, *linkView) error           { return nil }
func (noVisitor) leased(urlnorm.Key) error            { return nil }
func (noVisitor) returned(urlnorm.Key) error          { return nil }
func (noVisitor) host(urlnorm.HostID, []byte) error   { return nil }
func (noVisitor) cursor(urlnorm.HostID, Cursor) error { return nil }
func (noVisitor) robots([]byte, []byte) error         { return nil }
func (noVisitor) run([]byte, []byte, bool) error      { return nil }
func (noVisitor) crashed(urlnorm.Key, int) error      { return nil }

// errStopped ends a walk early.
var errStopped = errors.New("stopped")
