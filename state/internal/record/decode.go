package record

import (
	"errors"
	"fmt"
	"math"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
)

// A LinkView is a link within a part. Its bytes are valid until the next one is
// read.
type LinkView struct {
	Key        weburl.Key
	Index      int // place among the links and visits of the part
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
	urlBuf     []byte // memory of url; the next URL is stored without the prefix that it shares with this one
	lastSeen   int64  // discovered in Unix ms, 0 for none; the next link stores the difference to it
}

// A PartHead is what a part begins with.
type PartHead struct {
	Partition uint8
	Kind      byte
	Run       uint64
}

// A Visitor has a function for each section that it wants to see. Walk calls these functions in the order of the
// record, and skips sections without a function. Bytes and links are valid during the call only. A Visitor is used for
// one record at a time.
type Visitor struct {
	Part      func(PartHead) error
	Finish    func(Stored) error
	Link      func(*LinkView) error
	Visit     func(*LinkView) error
	Leased    func(Lease) error
	Returned  func(weburl.Key) error
	Host      func(Stored) error
	Cursor    func(frontier.HostCursor) error
	Origin    func(Stored) error
	Voucher   func(frontier.Voucher) error
	Skip      func(frontier.Skip) error
	Evidence  func(frontier.Evidence) error
	Named     func(frontier.Named) error
	Fact      func(frontier.CrawlFact) error // whose value may be kept
	InFlight  func(InFlight) error
	NotBefore func(frontier.HostNotBefore) error // a HostID of the partition alone has the time of its closing
	Received  func(frontier.Mark) error
	Sent      func(Sent) error

	head    PartHead // of the part being read
	part    Reader   // of its sections
	element Reader   // of the element being read
	link    LinkView // the last one of the section being read
	links   int      // of the part, in the sections before
	tag     byte     // of the section being read
}

// Stored is a finish, or what is known of a host or origin, with its value as in Badger.
type Stored struct {
	Key    weburl.Key // of a finish
	Host   weburl.HostID
	Origin []byte
	Value  []byte
}

// ErrDecode says that a record is damaged.
var ErrDecode = &disk.CorruptError{What: "log entry", Reason: "it does not decode"}

// Walk shows an encoded record to v.
func Walk(b []byte, v *Visitor) error {
	r := Reader{B: b}
	n, err := r.Parts()
	for ; err == nil && n > 0 && !r.Bad; n-- {
		part := r.Sized()
		err = WalkPart(part.U8(), part.rest(), v)
	}
	if err == nil && r.Bad {
		err = ErrDecode
	}
	return err
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

// WalkPart shows the body of one part to v.
func WalkPart(partition uint8, body []byte, v *Visitor) error {
	v.part = Reader{B: body}
	r := &v.part
	v.head = PartHead{Partition: partition, Kind: r.U8(), Run: r.Uvarint()}
	if r.Bad || v.head.Kind > KindClosed {
		return ErrDecode
	}
	if v.Part != nil {
		if err := v.Part(v.head); err != nil {
			return err
		}
	}
	v.links = 0
	for len(r.B) > 0 {
		tag, n := r.U8(), r.UpTo(math.MaxUint32)
		v.tag = tag
		if int(tag) >= len(sections) || sections[tag] == nil {
			return &disk.CorruptError{What: "log entry", Reason: fmt.Sprintf("it has a section of unknown kind %d",
				tag)}
		}
		v.link = LinkView{Index: v.links - 1, urlBuf: v.link.urlBuf[:0]}
		if err := sections[tag].show(v, n); err != nil {
			return err
		}
		if tag == tagLinks || tag == tagVisits {
			v.links += int(n)
		}
	}
	if r.Bad {
		return ErrDecode
	}
	return nil
}

// hostIn reads a HostID, which must be of the partition.
func (r *Reader) hostIn(partition uint8) weburl.HostID {
	h := r.host()
	if h.Partition() != partition {
		r.Fail()
	}
	return h
}

func (r *Reader) keyIn(partition uint8) weburl.Key {
	k := r.Key()
	if k.Host.Partition() != partition {
		r.Fail()
	}
	return k
}

// readLink reads the next link of a section. Those of section 3, and of no other, are later visits.
func (v *Visitor) readLink(e *Reader) *LinkView {
	l := &v.link
	l.Index++
	l.read(e)
	if l.Key.Host.Partition() != v.head.Partition || v.tag != tagSent && (v.tag == tagVisits) != (l.Visit > 1) {
		e.Fail()
	}
	return l
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
	if l.Sitemap = flags&linkSitemap != 0; l.Sitemap != isSitemap(l.Priority) {
		e.Fail() // a queue holds one kind only
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

// ErrStopped ends a walk early.
var ErrStopped = errors.New("stopped")
