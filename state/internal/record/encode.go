package record

import (
	"encoding/binary"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// MaxSize bounds the encoded size of one record.
const MaxSize = 16 << 20

// Kinds of parts.
const (
	KindEvents = 0 // of a Record
	KindOpened = 1 // the partition was opened
	KindClosed = 2 // the partition was closed in good order
	KindSent   = 3 // never stored; KindOf returns it for events that are only links and questions for another machine
)

// Flags of a link within a part.
const (
	linkSameHost   = 1 << 0 // as the link before
	linkSameParent = 1 << 1 // as the link before
	linkDiscovered = 1 << 2
	linkLastMod    = 1 << 3
	linkHops       = 1 << 4
	linkFinish     = 1 << 5 // a finish follows
	linkSitemap    = 1 << 6 // it is a sitemap
	linkVisit      = 1 << 7 // the number of a visit after the first follows, and how the one before ended
)

// leasedAlone is the flag of a page that is in flight with nothing else being read.
const leasedAlone = 1

// aloneTwice is the flag of a page that was in flight alone at two unclean ends; it also has the flag leasedAlone.
const aloneTwice = 2

// contents is a record that is being encoded, with one list for each section.
type contents struct {
	*frontier.Record
	finishes  []*frontier.Finish
	leases    []Lease
	inFlight  []InFlight
	notBefore []frontier.HostNotBefore
	sent      []sent

	bodies  *Bodies
	parts   PartitionSet
	several bool           // there are several parts; else all elements belong to the one
	before  *frontier.Link // the link before this one in the section
	none    frontier.Link  // is before the first one
	index   uint32         // of the next link or visit of the part
	finish  [1]*frontier.Finish
}

// A Lease is a page that is in flight.
type Lease struct {
	Key   weburl.Key
	Alone bool // nothing else is being read
}

// InFlight is a page that was in flight at unclean ends of runs.
type InFlight struct {
	Key weburl.Key
	UncleanEnds
}

// Append appends the stored form of r: one part for each partition. It sets At of the links and visits, without the
// position.
func Append(dst []byte, run uint64, r *frontier.Record, b *Bodies) []byte {
	c, _ := b.contents.Get().(*contents)
	if c == nil {
		c = &contents{bodies: b}
	}
	defer c.release()
	c.Record = r
	if r.Finish != nil {
		c.finish[0], c.finishes = r.Finish, c.finish[:]
	}
	for _, k := range r.Leased {
		c.leases = append(c.leases, Lease{Key: k})
	}
	for _, k := range r.Alone {
		c.leases = append(c.leases, Lease{Key: k, Alone: true})
	}
	c.addSent()
	return c.append(dst, KindEvents, run)
}

// release gives the memory back.
func (c *contents) release() {
	c.Record, c.finishes, c.finish[0], c.before, c.parts = nil, nil, nil, nil, PartitionSet{}
	clear(c.sent)
	c.leases, c.sent = c.leases[:0], c.sent[:0]
	c.bodies.contents.Put(c)
}

// append appends parts of one kind: one for each partition in c.parts, and one for each partition that has elements.
func (c *contents) append(dst []byte, kind byte, run uint64) []byte {
	var tags [len(sections)]byte // of sections with elements
	n := 0
	for tag, s := range sections {
		if s != nil && s.touch(c) {
			tags[n] = byte(tag)
			n++
		}
	}
	count := c.parts.len()
	c.several = count > 1
	dst = AppendHead(dst, count)
	for p := range c.parts.All() {
		var body int
		dst, body = beginPart(dst, p, kind, run)
		c.index = 0
		for _, tag := range tags[:n] {
			dst = sections[tag].appendTo(dst, tag, c, p)
		}
		dst = EndSized(dst, body)
	}
	return dst
}

// AppendHead begins a record of n parts.
func AppendHead(dst []byte, n int) []byte {
	return binary.AppendUvarint(append(dst, Version), uint64(n))
}

// beginPart begins a part; EndSized ends it.
func beginPart(dst []byte, p uint8, kind byte, run uint64) ([]byte, int) {
	dst, body := BeginSized(dst)
	return binary.AppendUvarint(append(dst, p, kind), run), body
}

// beginSection begins a section of n elements.
func beginSection(dst []byte, tag byte, n int) []byte {
	return binary.AppendUvarint(append(dst, tag), uint64(n))
}

// appendNewLink appends a link, which gets the next place in its part.
func appendNewLink(dst []byte, c *contents, l *frontier.Link) []byte {
	l.At = frontier.Cursor{Priority: l.Priority, Index: c.index}
	c.index++
	return c.appendLink(dst, l)
}

// appendVisit appends a visit, which gets the next place in its part. The URL and all else that was recorded when the
// link was found are left out.
func appendVisit(dst []byte, c *contents, l *frontier.Link) []byte {
	l.At = frontier.Cursor{Priority: l.Priority, Index: c.index}
	c.index++
	prev, v := frontier.Link{Key: c.before.Key}, *l
	v.URL, v.Parent, v.Discovered, v.LastMod, v.Finish = weburl.URL{}, weburl.URL{}, time.Time{}, time.Time{}, nil
	c.before = l
	return appendLink(dst, &prev, &v)
}

// appendLink appends l, without what it shares with the link before.
func (c *contents) appendLink(dst []byte, l *frontier.Link) []byte {
	prev := c.before
	c.before = l
	return appendLink(dst, prev, l)
}

// appendLink appends l, leaving out what it shares with the link before: the
// links of a page have their parent, most of the time their host, and much of
// their text in common.
func appendLink(dst []byte, prev, l *frontier.Link) []byte {
	sameHost := l.Key.Host == prev.Key.Host
	sameParent := l.Parent == prev.Parent
	dst = append(dst, Flag(sameHost, linkSameHost)|Flag(sameParent, linkSameParent)|
		Flag(!l.Discovered.IsZero(), linkDiscovered)|Flag(!l.LastMod.IsZero(), linkLastMod)|
		Flag(l.Hops > 0, linkHops)|Flag(l.Finish != nil, linkFinish)|Flag(l.Sitemap, linkSitemap)|
		Flag(l.Visit > 1, linkVisit))
	if !sameHost {
		dst = appendHostID(dst, l.Key.Host)
	}
	dst = binary.BigEndian.AppendUint64(dst, l.Key.Hi)
	dst = binary.BigEndian.AppendUint64(dst, l.Key.Lo)
	dst = append(dst, l.Priority, l.Source)
	dst = binary.AppendUvarint(dst, uint64(l.Depth))
	n := shared(prev.URL.String(), l.URL.String())
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = AppendString(dst, l.URL.String()[n:])
	if !sameParent {
		dst = AppendString(dst, l.Parent.String())
	}
	if !l.Discovered.IsZero() {
		dst = binary.AppendUvarint(dst, zigzag(l.Discovered.UnixMilli()-unixMilli(prev.Discovered)))
	}
	if !l.LastMod.IsZero() {
		dst = binary.AppendUvarint(dst, Millis(l.LastMod))
	}
	if l.Hops > 0 {
		dst = append(dst, l.Hops)
	}
	if l.Finish != nil {
		var finish int
		dst, finish = BeginSized(dst)
		dst = EndSized(appendFinish(dst, l.Finish), finish)
	}
	if l.Visit > 1 {
		dst = binary.AppendUvarint(dst, uint64(l.Visit))
		dst = appendSummary(dst, l.Before)
	}
	if l.Repeats > 0 {
		dst = append(dst, l.Repeats)
	}
	return dst
}

func appendHostID(dst []byte, h weburl.HostID) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(h))
}

// AppendOpened appends the record that opens partitions: it names the pages that were in flight when the previous run
// ended uncleanly, with the number of such ends of each.
func AppendOpened(dst []byte, run uint64, opened PartitionSet, crashed map[weburl.Key]UncleanEnds) []byte {
	c := &contents{Record: &frontier.Record{}, parts: opened}
	for k, ends := range crashed {
		if opened.Has(k.Host.Partition()) {
			c.inFlight = append(c.inFlight, InFlight{k, ends})
		}
	}
	return c.append(dst, KindOpened, run)
}

// AppendClosed appends the record that closes partitions in good order. What is
// known of a partition's hosts is in closings, if anything.
func AppendClosed(dst []byte, run uint64, closed PartitionSet, closings map[uint8]frontier.Closed) []byte {
	c := &contents{Record: &frontier.Record{}, parts: closed}
	for p := range closed.All() {
		if closing, ok := closings[p]; ok {
			// A HostID of the partition alone has the time of closing.
			c.notBefore = append(c.notBefore, frontier.HostNotBefore{Host: weburl.HostID(p) << 56, At: closing.At})
			c.notBefore = append(c.notBefore, closing.Hosts...)
		}
	}
	return c.append(dst, KindClosed, run)
}
