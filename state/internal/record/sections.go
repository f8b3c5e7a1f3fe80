package record

import (
	"encoding/binary"
	"math"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Tags of sections that code beside the table names.
const (
	tagLinks  = 2
	tagVisits = 3
	tagSent   = 17
)

// sections is the table of sections: the index is the tag, as FORMAT.md numbers them, and a part has its sections in
// this order. Both are frozen. A tag without a row is an error for a reader, so a new row needs a new format version; a
// field added at the end of an element does not.
var sections = [...]section{
	1: &row[*frontier.Finish, Stored]{ // finish
		list:      func(c *contents) []*frontier.Finish { return c.finishes },
		partition: func(f **frontier.Finish) uint8 { return (*f).Key.Host.Partition() },
		append: func(dst []byte, _ *contents, f **frontier.Finish) []byte {
			return appendFinish((*f).Key.Append(dst), *f)
		},
		read:  func(v *Visitor, e *Reader) Stored { return Stored{Key: e.keyIn(v.head.Partition), Value: e.rest()} },
		apply: func(v *Visitor) func(Stored) error { return v.Finish },
	},
	tagLinks: &row[frontier.Link, *LinkView]{
		list:      func(c *contents) []frontier.Link { return c.Links },
		partition: func(l *frontier.Link) uint8 { return l.Key.Host.Partition() },
		append:    appendNewLink,
		read:      (*Visitor).readLink,
		apply:     func(v *Visitor) func(*LinkView) error { return v.Link },
	},
	tagVisits: &row[frontier.Link, *LinkView]{
		list:      func(c *contents) []frontier.Link { return c.Visits },
		partition: func(l *frontier.Link) uint8 { return l.Key.Host.Partition() },
		append:    appendVisit,
		read:      (*Visitor).readLink,
		apply:     func(v *Visitor) func(*LinkView) error { return v.Visit },
	},
	4: &row[Lease, Lease]{ // leased
		list:      func(c *contents) []Lease { return c.leases },
		partition: func(l *Lease) uint8 { return l.Key.Host.Partition() },
		size:      1 + keySize,
		append: func(dst []byte, _ *contents, l *Lease) []byte {
			return l.Key.Append(append(dst, Flag(l.Alone, leasedAlone)))
		},
		read: func(v *Visitor, e *Reader) Lease {
			return Lease{Alone: e.U8()&leasedAlone != 0, Key: e.keyIn(v.head.Partition)}
		},
		apply: func(v *Visitor) func(Lease) error { return v.Leased },
	},
	5: &row[weburl.Key, weburl.Key]{ // returned
		list:      func(c *contents) []weburl.Key { return c.Returned },
		partition: func(k *weburl.Key) uint8 { return k.Host.Partition() },
		size:      keySize,
		append:    func(dst []byte, _ *contents, k *weburl.Key) []byte { return k.Append(dst) },
		read:      func(v *Visitor, e *Reader) weburl.Key { return e.keyIn(v.head.Partition) },
		apply:     func(v *Visitor) func(weburl.Key) error { return v.Returned },
	},
	6: &row[frontier.HostFact, Stored]{ // hosts
		list:      func(c *contents) []frontier.HostFact { return c.Hosts },
		partition: func(h *frontier.HostFact) uint8 { return h.Host.Partition() },
		append: func(dst []byte, _ *contents, h *frontier.HostFact) []byte {
			return appendHost(appendHostID(dst, h.Host), h)
		},
		read:  func(v *Visitor, e *Reader) Stored { return Stored{Host: e.hostIn(v.head.Partition), Value: e.rest()} },
		apply: func(v *Visitor) func(Stored) error { return v.Host },
	},
	7: &row[frontier.HostCursor, frontier.HostCursor]{ // cursors
		list:      func(c *contents) []frontier.HostCursor { return c.Cursors },
		partition: func(c *frontier.HostCursor) uint8 { return c.Host.Partition() },
		append: func(dst []byte, _ *contents, c *frontier.HostCursor) []byte {
			return AppendCursor(appendHostID(dst, c.Host), c.Low)
		},
		read: func(v *Visitor, e *Reader) frontier.HostCursor {
			return frontier.HostCursor{Host: e.hostIn(v.head.Partition), Low: e.Cursor()}
		},
		apply: func(v *Visitor) func(frontier.HostCursor) error { return v.Cursor },
	},
	8: &row[frontier.OriginFact, Stored]{ // origins
		list:      func(c *contents) []frontier.OriginFact { return c.Origins },
		partition: func(o *frontier.OriginFact) uint8 { return o.Host.Partition() },
		append: func(dst []byte, c *contents, o *frontier.OriginFact) []byte {
			return c.bodies.AppendOrigin(AppendString(appendHostID(dst, o.Host), o.Origin), o)
		},
		read: func(v *Visitor, e *Reader) Stored {
			return Stored{Host: e.hostIn(v.head.Partition), Origin: e.Bytes(), Value: e.rest()}
		},
		apply: func(v *Visitor) func(Stored) error { return v.Origin },
	},
	9: &row[frontier.Voucher, frontier.Voucher]{ // vouchers
		list:      func(c *contents) []frontier.Voucher { return c.Vouchers },
		partition: func(v *frontier.Voucher) uint8 { return v.Key.Host.Partition() },
		append: func(dst []byte, _ *contents, v *frontier.Voucher) []byte {
			return binary.AppendUvarint(appendHostID(v.Key.Append(dst), v.Host), uint64(v.Visit))
		},
		read: func(v *Visitor, e *Reader) frontier.Voucher {
			return frontier.Voucher{Key: e.keyIn(v.head.Partition), Host: e.host(),
				Visit: uint32(e.UpTo(math.MaxUint32))}
		},
		apply: func(v *Visitor) func(frontier.Voucher) error { return v.Voucher },
	},
	10: &row[frontier.Skip, frontier.Skip]{ // skips
		list:      func(c *contents) []frontier.Skip { return c.Skips },
		partition: func(s *frontier.Skip) uint8 { return s.Partition },
		append: func(dst []byte, _ *contents, s *frontier.Skip) []byte {
			return binary.AppendUvarint(append(dst, s.Reason), s.Count)
		},
		read: func(v *Visitor, e *Reader) frontier.Skip {
			return frontier.Skip{Partition: v.head.Partition, Reason: e.U8(), Count: e.Uvarint()}
		},
		apply: func(v *Visitor) func(frontier.Skip) error { return v.Skip },
	},
	11: &row[frontier.Evidence, frontier.Evidence]{ // evidence
		list:      func(c *contents) []frontier.Evidence { return c.Evidence },
		partition: func(e *frontier.Evidence) uint8 { return e.Partition },
		append:    appendEvidence,
		read:      (*Visitor).readEvidence,
		apply:     func(v *Visitor) func(frontier.Evidence) error { return v.Evidence },
	},
	12: &row[frontier.Named, frontier.Named]{ // named
		list:      func(c *contents) []frontier.Named { return c.Named },
		partition: func(n *frontier.Named) uint8 { return n.Key.Host.Partition() },
		append: func(dst []byte, _ *contents, n *frontier.Named) []byte {
			dst = append(n.Key.Append(dst), Flag(n.Listed, NamedListed)|Flag(n.Linked, NamedLinked))
			return binary.AppendUvarint(binary.AppendUvarint(dst, Millis(n.LastMod)), uint64(n.Generation))
		},
		read: func(v *Visitor, e *Reader) frontier.Named {
			n, flags := frontier.Named{Key: e.keyIn(v.head.Partition)}, e.U8()
			n.Listed, n.Linked = flags&NamedListed != 0, flags&NamedLinked != 0
			n.LastMod, n.Generation = e.Time(), uint32(e.UpTo(math.MaxUint32))
			return n
		},
		apply: func(v *Visitor) func(frontier.Named) error { return v.Named },
	},
	13: &row[frontier.CrawlFact, frontier.CrawlFact]{ // facts of the crawl
		list:      func(c *contents) []frontier.CrawlFact { return c.Facts },
		partition: func(f *frontier.CrawlFact) uint8 { return f.Partition },
		append: func(dst []byte, _ *contents, f *frontier.CrawlFact) []byte {
			return appendBytes(append(AppendString(dst, f.Name), Flag(f.Value != nil, 1)), f.Value)
		},
		read: func(v *Visitor, e *Reader) frontier.CrawlFact {
			f := frontier.CrawlFact{Partition: v.head.Partition, Name: string(e.Bytes())}
			if set, value := e.U8(), e.Bytes(); set != 0 {
				f.Value = append([]byte{}, value...)
			}
			return f
		},
		apply: func(v *Visitor) func(frontier.CrawlFact) error { return v.Fact },
	},
	14: &row[InFlight, InFlight]{ // in flight
		list:      func(c *contents) []InFlight { return c.inFlight },
		partition: func(f *InFlight) uint8 { return f.Key.Host.Partition() },
		append: func(dst []byte, _ *contents, f *InFlight) []byte {
			return AppendInFlight(f.Key.Append(dst), f.UncleanEnds)
		},
		read: func(v *Visitor, e *Reader) InFlight {
			f := InFlight{Key: e.keyIn(v.head.Partition)}
			var err error
			if f.UncleanEnds, err = e.InFlight(); err != nil {
				e.Fail()
			}
			return f
		},
		apply: func(v *Visitor) func(InFlight) error { return v.InFlight },
	},
	15: &row[frontier.HostNotBefore, frontier.HostNotBefore]{ // not before
		list:      func(c *contents) []frontier.HostNotBefore { return c.notBefore },
		partition: func(h *frontier.HostNotBefore) uint8 { return h.Host.Partition() },
		append: func(dst []byte, _ *contents, h *frontier.HostNotBefore) []byte {
			return binary.AppendUvarint(appendHostID(dst, h.Host), Millis(h.At))
		},
		read: func(v *Visitor, e *Reader) frontier.HostNotBefore {
			return frontier.HostNotBefore{Host: e.hostIn(v.head.Partition), At: e.Time()}
		},
		apply: func(v *Visitor) func(frontier.HostNotBefore) error { return v.NotBefore },
	},
	16: &row[frontier.Mark, frontier.Mark]{ // received
		list:      func(c *contents) []frontier.Mark { return c.Marks },
		partition: func(m *frontier.Mark) uint8 { return m.Partition },
		append: func(dst []byte, _ *contents, m *frontier.Mark) []byte {
			return binary.AppendUvarint(append(dst, m.Session[:]...), m.Batch)
		},
		read: func(v *Visitor, e *Reader) frontier.Mark {
			m := frontier.Mark{Partition: v.head.Partition}
			copy(m.Session[:], e.Take(uint64(len(m.Session))))
			m.Batch = e.Uvarint()
			return m
		},
		apply: func(v *Visitor) func(frontier.Mark) error { return v.Received },
	},
	tagSent: &row[sent, Sent]{
		list:      func(c *contents) []sent { return c.sent },
		partition: (*sent).partition,
		append:    appendSent,
		read:      (*Visitor).readSent,
		apply:     func(v *Visitor) func(Sent) error { return v.Sent },
	},
}

// A section is a row of the table.
type section interface {
	// touch adds the partitions of its elements to c.parts, and reports whether there are any.
	touch(c *contents) bool
	// appendTo appends the section of a partition, unless it is empty.
	appendTo(dst []byte, tag byte, c *contents, p uint8) []byte
	// show reads n elements of v.part and shows them to v.
	show(v *Visitor, n uint64) error
}

// A row has what is particular to a section: E is an element as it is written, and D as it is read.
type row[E, D any] struct {
	list      func(*contents) []E
	partition func(*E) uint8
	size      byte // of each element, in one byte; 0 if they differ
	append    func(dst []byte, c *contents, e *E) []byte
	read      func(v *Visitor, e *Reader) D  // a fault is noted in e
	apply     func(v *Visitor) func(D) error // the function of v, nil if v does not look at the section
}

func (x *row[E, D]) touch(c *contents) bool {
	list := x.list(c)
	for i := range list {
		c.parts.Add(x.partition(&list[i]))
	}
	return len(list) > 0
}

func (x *row[E, D]) appendTo(dst []byte, tag byte, c *contents, p uint8) []byte {
	list := x.list(c)
	n := len(list)
	for i := 0; c.several && i < len(list); i++ {
		if x.partition(&list[i]) != p {
			n--
		}
	}
	if n == 0 {
		return dst
	}
	dst = beginSection(dst, tag, n)
	c.before = &c.none
	for i := range list {
		e := &list[i]
		switch {
		case c.several && x.partition(e) != p:
		case x.size > 0:
			dst = x.append(append(dst, x.size), c, e)
		default:
			var body int
			dst, body = BeginSized(dst)
			dst = EndSized(x.append(dst, c, e), body)
		}
	}
	return dst
}

func (x *row[E, D]) show(v *Visitor, n uint64) error {
	apply := x.apply(v)
	for r := &v.part; n > 0 && !r.Bad; n-- {
		v.element = r.Sized()
		if apply == nil {
			continue
		}
		d := x.read(v, &v.element)
		if v.element.Bad {
			return ErrDecode
		}
		if err := apply(d); err != nil {
			return err
		}
	}
	return nil
}
