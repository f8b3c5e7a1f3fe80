package record

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/internal/urlnorm"
)

// Kinds of elements of section 17.
const (
	sentLink    = 1
	sentVoucher = 2 // of the sitemap before it
	sentAsked   = 3 // a question for a robots.txt
)

// appendSent appends links of a partition that others own, each without what it
// shares with the one before, and questions.
func appendSent(dst []byte, p uint8, links []frontier.Link, asked []frontier.RobotsQuestion) []byte {
	n := count(asked, p, func(q *frontier.RobotsQuestion) uint8 { return q.Host.Partition() })
	for i := range links {
		if links[i].Key.Host.Partition() == p {
			n += 1 + len(links[i].Vouchers)
		}
	}
	dst = beginSection(dst, tagSent, n)
	prev := &frontier.Link{}
	for i := range links {
		if l := &links[i]; l.Key.Host.Partition() == p {
			var body int
			dst, body = BeginSized(dst)
			dst = EndSized(appendLink(append(dst, sentLink), prev, l), body)
			prev = l
			for _, h := range l.Vouchers {
				dst, body = BeginSized(dst)
				dst = EndSized(binary.BigEndian.AppendUint64(append(dst, sentVoucher), uint64(h)), body)
			}
		}
	}
	for i := range asked {
		if q := &asked[i]; q.Host.Partition() == p {
			var body int
			dst, body = BeginSized(dst)
			dst = binary.BigEndian.AppendUint64(append(dst, sentAsked, q.Hops), uint64(q.Host))
			dst = EndSized(AppendString(AppendString(dst, q.URL.String()), q.Origin), body)
		}
	}
	return dst
}

// readAsked reads a question.
func readAsked(r *Reader) (frontier.RobotsQuestion, error) {
	q := frontier.RobotsQuestion{Hops: r.U8(), Host: r.host()}
	u, ok := urlnorm.FromCanonical(string(r.Bytes()))
	q.URL, q.Origin = u, string(r.Bytes())
	if r.Bad || !ok {
		return q, ErrDecode
	}
	return q, nil
}

func appendMarks(dst []byte, p uint8, marks []frontier.Mark) []byte {
	dst = beginSection(dst, tagReceived, count(marks, p, func(m *frontier.Mark) uint8 { return m.Partition }))
	for _, m := range marks {
		if m.Partition == p {
			var body int
			dst, body = BeginSized(dst)
			dst = append(dst, m.Session[:]...)
			dst = EndSized(binary.AppendUvarint(dst, m.Batch), body)
		}
	}
	return dst
}

func appendEvidence(dst []byte, p uint8, list []frontier.Evidence) []byte {
	dst = beginSection(dst, tagEvidence, count(list, p, func(e *frontier.Evidence) uint8 { return e.Partition }))
	for i := range list {
		if e := &list[i]; e.Partition == p {
			var body int
			dst, body = BeginSized(dst)
			dst = binary.BigEndian.AppendUint64(append(dst, byte(e.Kind)), e.Subject)
			for _, w := range e.Words {
				dst = binary.BigEndian.AppendUint64(dst, w)
			}
			dst = EndSized(dst, body)
		}
	}
	return dst
}

// KindOf tells what the body of a part is about: its kind, or 3 if it has only links that
// are sent.
func KindOf(body []byte) byte {
	r := Reader{B: body}
	kind := r.U8()
	r.Uvarint() // the run
	if kind == KindEvents && len(r.B) > 0 && r.B[0] == tagSent {
		return kindClosed + 1
	}
	return kind
}

// Link returns the link with what was written of it.
func (l *LinkView) Link() (frontier.Link, error) {
	link, err := DecodeDiscovery(l.Key, AppendDiscovery(nil, l))
	link.Sitemap, link.Repeats = l.Sitemap, l.repeats
	if err == nil && l.Finish != nil {
		link.Finish = &frontier.Finish{}
		err = ReadFinish(l.Finish, link.Finish)
	}
	return link, err
}

// evidence reads an element of section 11.
func (r *Reader) evidence(partition uint8) frontier.Evidence {
	e := frontier.Evidence{Partition: partition, Kind: frontier.EvidenceKind(r.U8()), Subject: r.U64()}
	if n := len(r.B) / 8; n > 0 {
		e.Words = make([]uint64, 0, n)
	}
	for len(r.B) >= 8 {
		e.Words = append(e.Words, r.U64())
	}
	return e
}

// AppendClosed appends the record that closes partitions in good order. What is
// known of a partition's hosts is in closings, if anything.
func AppendClosed(dst []byte, run uint64, closed PartitionSet, closings map[uint8]frontier.Closed) []byte {
	dst = AppendHead(dst, closed.len())
	for p := range closed.All() {
		var part int
		dst, part = beginPart(dst, p, kindClosed, run)
		if c, ok := closings[p]; ok {
			dst = beginSection(dst, tagNotBefore, 1+len(c.Hosts))
			// The partition itself stands for the time of closing.
			all := append([]frontier.HostNotBefore{{Host: frontier.HostID(p) << 56, At: c.At}}, c.Hosts...)
			for _, h := range all {
				var body int
				dst, body = BeginSized(dst)
				dst = binary.BigEndian.AppendUint64(dst, uint64(h.Host))
				dst = EndSized(binary.AppendUvarint(dst, Millis(h.At)), body)
			}
		}
		dst = EndSized(dst, part)
	}
	return dst
}
