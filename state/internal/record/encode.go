package record

import (
	"encoding/binary"
	"time"

	"github.com/mapwright/mapwright/frontier"
)

// MaxSize bounds the encoded size of one record.
const MaxSize = 16 << 20

// Kinds of parts.
const (
	KindEvents = 0 // of a Record
	KindOpened = 1 // the partition was opened
	kindClosed = 2 // the partition was closed in good order
)

// Sections of a part, as FORMAT.md numbers them. A tag that a reader does not
// know is an error, so a new one needs a new format version; a field added at the
// end of an element does not.
const (
	tagFinish    = 1
	tagLinks     = 2
	tagVisits    = 3
	tagLeased    = 4
	tagReturned  = 5
	tagHosts     = 6
	tagCursors   = 7
	tagOrigins   = 8
	tagVouchers  = 9
	tagSkips     = 10
	tagEvidence  = 11
	tagNamed     = 12
	tagFacts     = 13
	tagInFlight  = 14
	tagNotBefore = 15
	tagReceived  = 16
	tagSent      = 17
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

// Append appends the stored form of r: one part for each partition. It sets
// the index of the links' places.
func Append(dst []byte, run uint64, r *frontier.Record, c *Bodies) []byte {
	parts := touched(r)
	dst = AppendHead(dst, parts.len())
	for p := range parts.All() {
		var body int
		dst, body = beginPart(dst, p, KindEvents, run)
		dst = appendFinished(dst, p, r.Finish)
		var index uint32
		dst, index = appendLinks(dst, p, r.Links)
		dst = appendVisits(dst, p, r.Visits, index)
		dst = appendLeased(dst, p, r.Leased, r.Alone)
		dst = appendReturned(dst, p, r.Returned)
		dst = appendHosts(dst, p, r.Hosts)
		dst = appendCursors(dst, p, r.Cursors)
		dst = appendOrigins(dst, p, r.Origins, c)
		dst = appendVouchers(dst, p, r.Vouchers)
		dst = appendSkips(dst, p, r.Skips)
		dst = appendEvidence(dst, p, r.Evidence)
		dst = appendNamed(dst, p, r.Named)
		dst = appendFacts(dst, p, r.Facts)
		dst = appendMarks(dst, p, r.Marks)
		dst = appendSent(dst, p, r.Sent, r.Asked)
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

// beginSection begins a section of n elements, unless there are none.
func beginSection(dst []byte, tag byte, n int) []byte {
	if n == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, tag), uint64(n))
}

// count is how many elements belong to a partition.
func count[T any](list []T, p uint8, partition func(*T) uint8) int {
	n := 0
	for i := range list {
		if partition(&list[i]) == p {
			n++
		}
	}
	return n
}

func appendFinished(dst []byte, p uint8, f *frontier.Finish) []byte {
	if f == nil || f.Key.Host.Partition() != p {
		return dst
	}
	dst = beginSection(dst, tagFinish, 1)
	dst, body := BeginSized(dst)
	dst = appendFinish(f.Key.Append(dst), f)
	return EndSized(dst, body)
}

func linkPartition(l *frontier.Link) uint8 { return l.Key.Host.Partition() }

// appendLinks appends the section of links, whose places in the part count from 0. It
// returns the place after the last one.
func appendLinks(dst []byte, p uint8, links []frontier.Link) (_ []byte, index uint32) {
	dst = beginSection(dst, tagLinks, count(links, p, linkPartition))
	prev := &frontier.Link{}
	for i := range links {
		l := &links[i]
		if l.Key.Host.Partition() != p {
			continue
		}
		l.At = frontier.Cursor{Priority: l.Priority, Index: index}
		dst = appendLink(dst, prev, l)
		prev = l
		index++
	}
	return dst, index
}

// appendVisits appends the section of visits, whose places in the part count from index.
// The URL and what else is known since the link was found are left out.
func appendVisits(dst []byte, p uint8, visits []frontier.Link, index uint32) []byte {
	if len(visits) == 0 {
		return dst
	}
	dst = beginSection(dst, tagVisits, count(visits, p, linkPartition))
	var prev, v frontier.Link
	for i := range visits {
		l := &visits[i]
		if l.Key.Host.Partition() != p {
			continue
		}
		l.At = frontier.Cursor{Priority: l.Priority, Index: index}
		v = *l
		v.URL, v.Parent, v.Discovered, v.LastMod, v.Finish = frontier.URL{}, frontier.URL{}, time.Time{}, time.Time{}, nil
		dst = appendLink(dst, &prev, &v)
		prev = v
		index++
	}
	return dst
}

// appendLink appends l, leaving out what it shares with the link before: the
// links of a page have their parent, most of the time their host, and much of
// their text in common.
func appendLink(dst []byte, prev, l *frontier.Link) []byte {
	dst, body := BeginSized(dst)
	sameHost := l.Key.Host == prev.Key.Host
	sameParent := l.Parent == prev.Parent
	dst = append(dst, Flag(sameHost, linkSameHost)|Flag(sameParent, linkSameParent)|
		Flag(!l.Discovered.IsZero(), linkDiscovered)|Flag(!l.LastMod.IsZero(), linkLastMod)|
		Flag(l.Hops > 0, linkHops)|Flag(l.Finish != nil, linkFinish)|Flag(l.Sitemap, linkSitemap)|Flag(l.Visit > 1, linkVisit))
	if !sameHost {
		dst = binary.BigEndian.AppendUint64(dst, uint64(l.Key.Host))
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
	return EndSized(dst, body)
}

func keyPartition(k *frontier.Key) uint8 { return k.Host.Partition() }

func appendLeased(dst []byte, p uint8, keys, alone []frontier.Key) []byte {
	dst = beginSection(dst, tagLeased, count(keys, p, keyPartition)+count(alone, p, keyPartition))
	dst = appendLeasedKeys(dst, p, keys, 0)
	return appendLeasedKeys(dst, p, alone, leasedAlone)
}

func appendLeasedKeys(dst []byte, p uint8, keys []frontier.Key, flags byte) []byte {
	for _, k := range keys {
		if k.Host.Partition() == p {
			dst = k.Append(append(dst, 1+keySize, flags))
		}
	}
	return dst
}

func appendReturned(dst []byte, p uint8, keys []frontier.Key) []byte {
	dst = beginSection(dst, tagReturned, count(keys, p, keyPartition))
	for _, k := range keys {
		if k.Host.Partition() == p {
			dst = k.Append(append(dst, keySize))
		}
	}
	return dst
}

// appendSection appends the section of those elements of a list that belong to a partition.
func appendSection[T any](dst []byte, tag byte, p uint8, list []T, partition func(*T) uint8, element func([]byte, *T) []byte) []byte {
	dst = beginSection(dst, tag, count(list, p, partition))
	for i := range list {
		if partition(&list[i]) == p {
			var body int
			dst, body = BeginSized(dst)
			dst = EndSized(element(dst, &list[i]), body)
		}
	}
	return dst
}

func appendHosts(dst []byte, p uint8, hosts []frontier.HostFact) []byte {
	return appendSection(dst, tagHosts, p, hosts, func(h *frontier.HostFact) uint8 { return h.Host.Partition() }, func(dst []byte, h *frontier.HostFact) []byte {
		return appendHost(binary.BigEndian.AppendUint64(dst, uint64(h.Host)), h)
	})
}

func appendCursors(dst []byte, p uint8, cursors []frontier.HostCursor) []byte {
	return appendSection(dst, tagCursors, p, cursors, func(c *frontier.HostCursor) uint8 { return c.Host.Partition() }, func(dst []byte, c *frontier.HostCursor) []byte {
		return AppendCursor(binary.BigEndian.AppendUint64(dst, uint64(c.Host)), c.Low)
	})
}

func appendOrigins(dst []byte, p uint8, origins []frontier.OriginFact, c *Bodies) []byte {
	return appendSection(dst, tagOrigins, p, origins, func(o *frontier.OriginFact) uint8 { return o.Host.Partition() }, func(dst []byte, o *frontier.OriginFact) []byte {
		dst = AppendString(binary.BigEndian.AppendUint64(dst, uint64(o.Host)), o.Origin)
		return c.AppendOrigin(dst, o)
	})
}

func appendVouchers(dst []byte, p uint8, vouchers []frontier.Voucher) []byte {
	return appendSection(dst, tagVouchers, p, vouchers, func(v *frontier.Voucher) uint8 { return v.Key.Host.Partition() }, func(dst []byte, v *frontier.Voucher) []byte {
		dst = binary.BigEndian.AppendUint64(v.Key.Append(dst), uint64(v.Host))
		return binary.AppendUvarint(dst, uint64(v.Visit))
	})
}

func appendSkips(dst []byte, p uint8, skips []frontier.Skip) []byte {
	return appendSection(dst, tagSkips, p, skips, func(s *frontier.Skip) uint8 { return s.Partition }, func(dst []byte, s *frontier.Skip) []byte {
		return binary.AppendUvarint(append(dst, s.Reason), s.Count)
	})
}

func appendNamed(dst []byte, p uint8, named []frontier.Named) []byte {
	dst = beginSection(dst, tagNamed, count(named, p, func(n *frontier.Named) uint8 { return n.Key.Host.Partition() }))
	for i := range named {
		if n := &named[i]; n.Key.Host.Partition() == p {
			var body int
			dst, body = BeginSized(dst)
			dst = append(n.Key.Append(dst), Flag(n.Listed, NamedListed)|Flag(n.Linked, NamedLinked))
			dst = binary.AppendUvarint(dst, Millis(n.LastMod))
			dst = EndSized(binary.AppendUvarint(dst, uint64(n.Generation)), body)
		}
	}
	return dst
}

func appendFacts(dst []byte, p uint8, facts []frontier.CrawlFact) []byte {
	return appendSection(dst, tagFacts, p, facts, func(f *frontier.CrawlFact) uint8 { return f.Partition }, func(dst []byte, f *frontier.CrawlFact) []byte {
		dst = append(AppendString(dst, f.Name), Flag(f.Value != nil, 1))
		return appendBytes(dst, f.Value)
	})
}

// AppendOpened appends the record that opens partitions: which pages were in
// flight when the run before it ended uncleanly, with what is known of each by now.
func AppendOpened(dst []byte, run uint64, opened PartitionSet, crashed map[frontier.Key]UncleanEnds) []byte {
	inFlight := map[uint8]int{}
	for k := range crashed {
		inFlight[k.Host.Partition()]++
	}
	dst = AppendHead(dst, opened.len())
	for p := range opened.All() {
		var part int
		dst, part = beginPart(dst, p, KindOpened, run)
		if inFlight[p] > 0 {
			dst = beginSection(dst, tagInFlight, inFlight[p])
			for k, n := range crashed {
				if k.Host.Partition() == p {
					var body int
					dst, body = BeginSized(dst)
					dst = EndSized(AppendInFlight(k.Append(dst), n), body)
				}
			}
		}
		dst = EndSized(dst, part)
	}
	return dst
}
