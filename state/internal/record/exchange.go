package record

import (
	"encoding/binary"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
)

// Kinds of elements of section 17.
const (
	sentLink    = 1
	sentVoucher = 2 // of the sitemap before it
	sentAsked   = 3 // a question for a robots.txt
)

// sent is an element of section 17 as it is written.
type sent struct {
	kind     byte
	link     *frontier.Link // of a voucher the sitemap
	voucher  weburl.HostID
	question *frontier.RobotsQuestion
}

// Sent is an element of section 17 as it is read: a link, a question, or else a host that vouches for the sitemap that
// was sent before it.
type Sent struct {
	Link     *LinkView
	Question *frontier.RobotsQuestion
	Voucher  weburl.HostID
}

// addSent lists what the record sends.
func (c *contents) addSent() {
	for i := range c.Sent {
		l := &c.Sent[i]
		c.sent = append(c.sent, sent{kind: sentLink, link: l})
		for _, h := range l.Vouchers {
			c.sent = append(c.sent, sent{kind: sentVoucher, link: l, voucher: h})
		}
	}
	for i := range c.Asked {
		c.sent = append(c.sent, sent{kind: sentAsked, question: &c.Asked[i]})
	}
}

func (s *sent) partition() uint8 {
	if s.kind == sentAsked {
		return s.question.Host.Partition()
	}
	return s.link.Key.Host.Partition()
}

func appendSent(dst []byte, c *contents, s *sent) []byte {
	dst = append(dst, s.kind)
	switch s.kind {
	case sentLink:
		dst, body := BeginSized(dst)
		return EndSized(c.appendLink(dst, s.link), body)
	case sentVoucher:
		return appendHostID(dst, s.voucher)
	default:
		q := s.question
		return AppendString(AppendString(appendHostID(append(dst, q.Hops), q.Host), q.URL.String()), q.Origin)
	}
}

func (v *Visitor) readSent(e *Reader) (s Sent) {
	switch e.U8() {
	case sentLink:
		inner := e.Sized()
		s.Link = v.readLink(&inner)
		e.Bad = e.Bad || inner.Bad
	case sentVoucher:
		s.Voucher = e.host()
	case sentAsked:
		q := &frontier.RobotsQuestion{Hops: e.U8(), Host: e.hostIn(v.head.Partition)}
		q.URL, q.Origin = urlOf(e, string(e.Bytes())), string(e.Bytes())
		if s.Question = q; q.URL == (weburl.URL{}) {
			e.Fail()
		}
	default:
		e.Fail()
	}
	return s
}

func appendEvidence(dst []byte, _ *contents, e *frontier.Evidence) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, byte(e.Kind)), e.Subject)
	for _, w := range e.Words {
		dst = binary.BigEndian.AppendUint64(dst, w)
	}
	return dst
}

func (v *Visitor) readEvidence(r *Reader) frontier.Evidence {
	e := frontier.Evidence{Partition: v.head.Partition, Kind: frontier.EvidenceKind(r.U8()), Subject: r.U64()}
	if n := len(r.B) / 8; n > 0 {
		e.Words = make([]uint64, 0, n)
	}
	for len(r.B) >= 8 {
		e.Words = append(e.Words, r.U64())
	}
	return e
}

// KindOf tells what the body of a part is about: its kind, or KindSent if it has only what is
// sent.
func KindOf(body []byte) byte {
	r := Reader{B: body}
	kind := r.U8()
	r.Uvarint() // the run
	if kind == KindEvents && len(r.B) > 0 && r.B[0] == tagSent {
		return KindSent
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
