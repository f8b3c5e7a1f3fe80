package record

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/mapwright/mapwright/frontier"
	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/disk"
)

// The values in Badger. Each begins with its format version; fields may be
// added at the end without a new one.

// ValueReader returns a reader of a value in Badger. A version that this program does not read is a fault, which Done
// returns.
func ValueReader(b []byte) Reader {
	r := Reader{B: b}
	if v := r.U8(); v != Version {
		r.Fail()
		r.version = int16(v)
		if v == 0 {
			r.version = noVersion
		}
	}
	return r
}

// Done returns an error if there was a fault. What names the encoding.
func (r *Reader) Done(what string) error {
	switch {
	case !r.Bad:
		return nil
	case r.version > 0:
		return &disk.VersionError{What: what, Found: uint64(r.version), Known: Version}
	case r.version == noVersion:
		return &disk.CorruptError{What: what, Reason: "it has no version"}
	}
	return &disk.CorruptError{What: what, Reason: "it does not decode"}
}

// urlOf is the URL of a stored text, which is empty for none.
func urlOf(r *Reader, text string) weburl.URL {
	if text == "" {
		return weburl.URL{}
	}
	u, ok := weburl.FromCanonical(text)
	if !ok {
		r.Fail()
	}
	return u
}

// AppendDiscovery appends the value of a u or s entry.
func AppendDiscovery(dst []byte, l *LinkView) []byte {
	dst = append(dst, Version, l.Priority, l.source)
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
	return append(dst, l.hops)
}

// DecodeDiscovery is the inverse of AppendDiscovery.
func DecodeDiscovery(k weburl.Key, b []byte) (frontier.Link, error) {
	r := ValueReader(b)
	l := readDiscovery(&r, k)
	n := r.UpTo(uint64(len(l.URL.String())))
	l.Parent = urlOf(&r, l.URL.String()[:n]+string(r.Bytes()))
	l.Hops, l.Sitemap, l.Check = r.U8(), isSitemap(l.Priority), l.Priority == frontier.PriorityCheck
	return l, r.Done("discovery")
}

// isSitemap reports whether links of a priority are sitemaps, or checks, which are recorded like sitemaps.
func isSitemap(priority uint8) bool {
	return priority == frontier.PrioritySitemap || priority == frontier.PriorityCheck
}

// IsCheck reports whether a discovery is that of a check.
func IsCheck(b []byte) bool { return len(b) > 1 && b[0] == Version && b[1] == frontier.PriorityCheck }

// DiscoveryURL decodes only the URL.
func DiscoveryURL(b []byte) (weburl.URL, error) {
	r := ValueReader(b)
	u := readDiscovery(&r, weburl.Key{}).URL
	return u, r.Done("discovery")
}

// readDiscovery reads a discovery up to its URL.
func readDiscovery(r *Reader, k weburl.Key) frontier.Link {
	l := frontier.Link{Key: k, Priority: r.U8(), Source: r.U8(), Depth: uint16(r.UpTo(math.MaxUint16))}
	l.Discovered, l.LastMod = r.Time(), r.Time()
	l.URL = urlOf(r, string(r.Bytes()))
	return l
}

// Flags of a finish.
const (
	finishCounted     = 1  // it counts towards page limits
	finishKeepFacts   = 2  // the facts of an earlier visit hold
	finishSameSummary = 4  // the finish before has the same summary, which is left out
	finishNotModified = 8  // the answer was 304
	finishSitemap     = 32 // it is that of a sitemap
)

// appendFinish appends the value of an f, t or v entry.
func appendFinish(dst []byte, f *frontier.Finish) []byte {
	same := f.Visit > 1 && f.Before == f.Summary()
	dst = append(dst, Version, f.Outcome, Flag(f.Counted, finishCounted)|Flag(f.KeepFacts, finishKeepFacts)|Flag(same,
		finishSameSummary)|
		Flag(f.NotModified, finishNotModified)|Flag(f.Sitemap, finishSitemap))
	dst = binary.AppendUvarint(dst, uint64(f.Status))
	dst = binary.AppendUvarint(dst, uint64(f.Attempts))
	dst = binary.AppendUvarint(dst, uint64(f.Visit))
	dst = binary.AppendUvarint(dst, uint64(f.Generation))
	dst = binary.AppendUvarint(dst, f.Bytes)
	if f.Visit > 1 && !same {
		dst = appendSummary(dst, f.Before)
	}
	dst = binary.AppendUvarint(dst, Millis(f.CheckedAt))
	dst = AppendString(dst, f.RedirectTo)
	dst = appendBytes(dst, f.Facts)
	return appendChange(dst, f)
}

// appendChange appends what a finish says about changes. Each field is left out if it
// and all that follow are zero: in generation 0 all are.
func appendChange(dst []byte, f *frontier.Finish) []byte {
	end := len(dst)
	keep := func(set bool) {
		if set {
			end = len(dst)
		}
	}
	dst = append(dst, f.Change)
	keep(f.Change > 0)
	dst = append(dst, f.Failures)
	keep(f.Failures > 0)
	dst = binary.AppendUvarint(dst, uint64(f.Changes))
	keep(f.Changes > 0)
	dst = binary.AppendUvarint(dst, Millis(f.ChangedAt))
	keep(!f.ChangedAt.IsZero())
	if len(f.Differences) > 0 {
		return appendBytes(dst, f.Differences)
	}
	return dst[:end]
}

// DecodeFinish decodes the value of a finish.
func DecodeFinish(k weburl.Key, b []byte) (*frontier.Finish, error) {
	r := ValueReader(b)
	f := &frontier.Finish{Key: k}
	r.FinishHead(f)
	f.CheckedAt = r.Time()
	f.RedirectTo = string(r.Bytes())
	f.Facts = Cloned(r.Bytes())
	r.change(f)
	f.Differences = Cloned(f.Differences)
	return f, r.Done("finish")
}

// change reads what appendChange wrote. Differences are a part of the input.
func (r *Reader) change(f *frontier.Finish) {
	if len(r.B) == 0 {
		return
	}
	f.Change, f.Failures = r.U8(), r.lastU8()
	f.Changes = r.lastNumber()
	if len(r.B) > 0 {
		f.ChangedAt = r.Time()
	}
	if len(r.B) > 0 {
		f.Differences = r.Bytes()
	}
}

// ReadFinish reads what is counted of a finish, and, of generations after the first,
// what it says about changes. Differences are a part of b.
func ReadFinish(b []byte, f *frontier.Finish) error {
	r := ValueReader(b)
	r.FinishHead(f)
	if f.Generation > 0 {
		r.Time()
		r.Bytes()
		r.Bytes()
		r.change(f)
	}
	return r.Done("finish")
}

// FinishHead reads the fields that counters are made of, and the flags.
func (r *Reader) FinishHead(f *frontier.Finish) {
	f.Outcome = r.U8()
	flags := r.U8()
	f.Counted, f.Sitemap = flags&finishCounted != 0, flags&finishSitemap != 0
	f.KeepFacts, f.NotModified = flags&finishKeepFacts != 0, flags&finishNotModified != 0
	f.Status = uint16(r.UpTo(math.MaxUint16))
	f.Attempts = uint16(r.UpTo(math.MaxUint16))
	f.Visit, f.Generation = uint32(r.UpTo(math.MaxUint32)), uint32(r.UpTo(math.MaxUint32))
	f.Bytes = r.Uvarint()
	switch {
	case f.Visit <= 1:
	case flags&finishSameSummary != 0:
		f.Before = f.Summary()
	default:
		f.Before = r.summary()
	}
}

func appendSummary(dst []byte, s frontier.Summary) []byte {
	dst = append(dst, s.Outcome, Flag(s.Counted, finishCounted))
	dst = binary.AppendUvarint(dst, uint64(s.Status))
	return binary.AppendUvarint(dst, s.Bytes)
}

func (r *Reader) summary() frontier.Summary {
	return frontier.Summary{Outcome: r.U8(), Counted: r.U8()&finishCounted != 0, Status: uint16(r.UpTo(math.MaxUint16)),
		Bytes: r.Uvarint()}
}

// Flags of a host fact.
const (
	hostBlocked   = 1
	hostAbandoned = 2
	hostDenied    = 4
	hostAway      = 8
)

// appendHost appends the value of an h entry.
func appendHost(dst []byte, h *frontier.HostFact) []byte {
	dst = AppendString(append(dst, Version), h.Name)
	dst = append(dst, Flag(h.Blocked, hostBlocked)|Flag(h.Abandoned, hostAbandoned)|Flag(h.Denied, hostDenied)|
		Flag(h.Away, hostAway))
	for _, d := range []time.Duration{h.Learned.Delay, h.Learned.Floor} {
		dst = binary.AppendUvarint(dst, zigzag(d.Milliseconds()))
	}
	for _, t := range []time.Time{h.Learned.FloorAt, h.Learned.LastSuccess, h.Learned.AskedUntil} {
		dst = binary.AppendUvarint(dst, Millis(t))
	}
	dst = binary.AppendUvarint(dst, zigzag(h.Pages))
	dst = appendRow(dst, h)
	if h.PagesGeneration > 0 {
		dst = binary.AppendUvarint(dst, uint64(h.PagesGeneration))
	}
	return dst
}

// appendRow appends the fields of a host fact about failures in a row.
func appendRow(dst []byte, h *frontier.HostFact) []byte {
	row := &h.Row
	dst = append(dst, row.Failures)
	dst = binary.AppendUvarint(dst, Millis(row.BackoffUntil))
	dst = binary.AppendUvarint(dst, h.Run)
	dst = append(dst, row.Forbidden, row.Refusals, row.AtCap)
	dst = binary.AppendUvarint(dst, uint64(len(row.Failed)))
	for _, url := range row.Failed {
		dst = binary.BigEndian.AppendUint16(dst, url)
	}
	return dst
}

// row reads what appendRow wrote. Facts of earlier versions of the program end before it.
func (r *Reader) row(f *frontier.HostFact) {
	if len(r.B) == 0 {
		return
	}
	row := &f.Row
	row.Failures, row.BackoffUntil, f.Run = r.U8(), r.Time(), r.Uvarint()
	row.Forbidden, row.Refusals, row.AtCap = r.U8(), r.U8(), r.U8()
	for urls := r.Take(2 * r.UpTo(math.MaxUint8)); len(urls) > 1; urls = urls[2:] {
		row.Failed = append(row.Failed, binary.BigEndian.Uint16(urls))
	}
}

// DecodeHost decodes the value of a host fact.
func DecodeHost(h weburl.HostID, b []byte) (frontier.HostFact, error) {
	r := ValueReader(b)
	f := frontier.HostFact{Host: h, Name: string(r.Bytes())}
	flags := r.U8()
	f.Blocked, f.Abandoned = flags&hostBlocked != 0, flags&hostAbandoned != 0
	f.Denied, f.Away = flags&hostDenied != 0, flags&hostAway != 0
	f.Learned.Delay, f.Learned.Floor = r.duration(), r.duration()
	f.Learned.FloorAt, f.Learned.LastSuccess, f.Learned.AskedUntil = r.Time(), r.Time(), r.Time()
	f.Pages = unzigzag(r.Uvarint())
	r.row(&f)
	f.PagesGeneration = r.lastNumber()
	return f, r.Done("host fact")
}

// duration reads a duration in milliseconds.
func (r *Reader) duration() time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	ms := unzigzag(r.Uvarint())
	if ms > most || ms < -most {
		r.Fail()
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Flags of an origin fact.
const (
	originSitemapsRequested = 1
	originPacked            = 2 // the body is compressed with zstd
)

// AppendOrigin appends the value of an o entry.
func (c *Bodies) AppendOrigin(dst []byte, o *frontier.OriginFact) []byte {
	body, packed := c.pack(o.Body)
	if !packed {
		body = o.Body
	}
	dst = append(dst, Version, uint8(o.State), Flag(o.SitemapsRequested, originSitemapsRequested)|Flag(packed,
		originPacked))
	dst = binary.AppendUvarint(dst, uint64(o.Status))
	dst = binary.AppendUvarint(dst, Millis(o.Fetched))
	dst = binary.AppendUvarint(dst, Millis(o.Expires))
	dst = appendBytes(dst, body)
	if o.SitemapsGeneration > 0 {
		dst = binary.AppendUvarint(dst, uint64(o.SitemapsGeneration))
	}
	return dst
}

// DecodeOrigin is the inverse of AppendOrigin.
func (c *Bodies) DecodeOrigin(h weburl.HostID, origin string, b []byte) (frontier.OriginFact, error) {
	const what = "origin fact"
	r := ValueReader(b)
	o := frontier.OriginFact{Host: h, Origin: origin, State: frontier.OriginState(r.U8())}
	flags := r.U8()
	o.SitemapsRequested = flags&originSitemapsRequested != 0
	o.Status = uint16(r.UpTo(math.MaxUint16))
	o.Fetched, o.Expires = r.Time(), r.Time()
	body := r.Bytes()
	o.SitemapsGeneration = r.lastNumber()
	if flags&originPacked == 0 {
		o.Body = Cloned(body)
	} else if body, err := c.unpack(body); err != nil {
		return o, &disk.CorruptError{What: what, Reason: "its body does not decompress: " + err.Error()}
	} else if len(body) > 0 {
		o.Body = body
	}
	return o, r.Done(what)
}

// AppendVoucher appends the value of a y entry.
func AppendVoucher(dst []byte, v *frontier.Voucher) []byte {
	return binary.AppendUvarint(append(dst, Version), uint64(v.Visit))
}

// DecodeVoucher reads the value of a y entry: the visit of the voucher.
func DecodeVoucher(b []byte) (visit uint32, err error) {
	r := ValueReader(b)
	visit = uint32(r.UpTo(math.MaxUint32))
	return visit, r.Done("voucher")
}

// AppendNamed appends the value of an n entry.
func AppendNamed(dst []byte, n *frontier.Named) []byte {
	dst = binary.AppendUvarint(append(dst, Version), uint64(n.Generation))
	return binary.AppendUvarint(dst, Millis(n.LastMod))
}

// DecodeNamed reads the value of an n entry.
func DecodeNamed(b []byte) (generation uint32, lastMod time.Time, err error) {
	r := ValueReader(b)
	generation, lastMod = uint32(r.UpTo(math.MaxUint32)), r.Time()
	return generation, lastMod, r.Done("naming of a url")
}

// AppendDifferences appends the value of a d entry.
func AppendDifferences(dst []byte, f *frontier.Finish) []byte {
	return appendBytes(append(dst, Version, f.Change), f.Differences)
}

// DecodeDifferences reads the value of a d entry.
func DecodeDifferences(b []byte) (change uint8, differences []byte, err error) {
	r := ValueReader(b)
	change, differences = r.U8(), Cloned(r.Bytes())
	return change, differences, r.Done("change")
}

// UncleanEnds counts the unclean ends of runs at which a page was in flight.
type UncleanEnds struct {
	Count int
	Alone int // at how many of them the page was in flight alone, up to 2
}

// Another adds one more end.
func (e UncleanEnds) Another(alone bool) UncleanEnds {
	e.Count++
	if alone && e.Alone < 2 {
		e.Alone++
	}
	return e
}

// AppendInFlight appends the value of an x entry.
func AppendInFlight(dst []byte, ends UncleanEnds) []byte {
	dst = binary.AppendUvarint(append(dst, Version), uint64(ends.Count))
	return append(dst, Flag(ends.Alone > 0, leasedAlone)|Flag(ends.Alone > 1, aloneTwice))
}

// InFlight reads the value of an x entry. Flags were added to it later.
func (r *Reader) InFlight() (ends UncleanEnds, err error) {
	*r = ValueReader(r.B)
	ends.Count = int(r.UpTo(math.MaxInt32))
	if len(r.B) > 0 {
		ends.Alone = bits.OnesCount8(r.U8() & (leasedAlone | aloneTwice))
	}
	return ends, r.Done("in-flight mark")
}

// AppendCursor appends a place in a queue.
func AppendCursor(dst []byte, c frontier.Cursor) []byte {
	dst = append(dst, c.Priority)
	dst = binary.AppendUvarint(dst, uint64(c.Position))
	return binary.AppendUvarint(dst, uint64(c.Index))
}

// Cursor is the inverse of AppendCursor.
func (r *Reader) Cursor() frontier.Cursor {
	return frontier.Cursor{Priority: r.U8(), Position: frontier.Position(r.Uvarint()),
		Index: uint32(r.UpTo(math.MaxUint32))}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
