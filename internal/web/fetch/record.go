package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/mapwright/mapwright/frontier/weburl"
	"github.com/mapwright/mapwright/internal/web/http1"
)

// An Archive keeps requests and their answers. Its methods may be called by any number of goroutines. A request does
// not fail if the Archive does: the Archive remembers its first error.
type Archive interface {
	// Keep writes an exchange before it returns. Its result becomes Response.Archived.
	Keep(x *Exchange) string
	// Spool makes a temporary file for the body of a Stream, which Close removes. The Archive remembers errors of the
	// file too.
	Spool() (Spool, error)
}

// A Spool is a temporary file. Write returns ErrNoRoom after the bytes for which there is room.
type Spool interface {
	io.ReadWriteSeeker
	io.Closer
}

// ErrNoRoom means that an Archive keeps no more of a body. What it has of it is archived.
var ErrNoRoom = errors.New("the archive keeps no more of the body")

// An Exchange is a request and its answer, as they were sent.
type Exchange struct {
	URL   weburl.URL
	Began time.Time
	Addr  netip.Addr // of the host; the zero value if it is not known or must not be told

	// Request is the request without the headers that may be credentials.
	Request []byte
	// Head is the status line and the headers of the answer as they came, with the empty line. If net/http
	// has read them, as those of HTTP/2, it is what HTTP/1.1 would have sent.
	Head  []byte
	Proto string // HTTP/1.1 or HTTP/2.0

	Status int
	// Body is the body of the answer in its Content-Encoding, without a Transfer-Encoding. It has Length bytes.
	Body   io.ReadSeeker
	Length int64
	// Truncated says why the body is not complete: length, time, disconnect or unspecified. It is empty if the body is
	// complete.
	Truncated string

	Earlier string // Request.Archived
}

// maxSpooled is how much of the body of a Stream is archived: more than a sitemap may have.
const maxSpooled = 64 << 20

// A recorder collects the Exchange of one call. A call has none if the Client has no Archive.
type recorder struct {
	client *Client
	call   *call
	out    *Response
	x      Exchange
	heads  http1.Heads

	buffer *buffer // of a body that is kept in memory
	spool  Spool   // of a Stream
	limit  int64
	failed error // why the body cannot be kept
	ended  bool  // all of the body has come
	done   bool
}

// record makes the recorder of a call.
func (c *Client) record(call *call, r *Request) {
	call.record = &recorder{client: c, call: call, x: Exchange{URL: r.URL, Began: time.Now(), Earlier: r.Archived}}
	call.exchange.Heads = &call.record.heads
}

// connected notes the address that a request is sent to.
func (k *recorder) connected(conn net.Conn) {
	if o := &k.client.opts; o.Proxy != nil || o.HideAddresses {
		return
	}
	if addr, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		k.x.Addr = addr.Addr().Unmap()
	}
}

// begin takes the head of an answer, whose body follows.
func (k *recorder) begin(r *Request, res *http.Response, out *Response) {
	k.call.meter(res.Body)
	k.out, k.x.Status, k.x.Proto, k.x.Head = out, res.StatusCode, res.Proto, k.heads.Answer
	if len(k.x.Head) == 0 {
		var head bytes.Buffer
		fmt.Fprintf(&head, "HTTP/1.1 %s\r\n", res.Status)
		_ = res.Header.Write(&head) // to memory
		head.WriteString("\r\n")
		k.x.Head = head.Bytes()
		if head, err := k.client.head(r); err == nil {
			k.heads.Request = head.Request(r.URL.Origin(), r.URL.RequestURI())
		}
	}
	k.x.Request = withoutPrivate(k.heads.Request)
	if c := k.client.opts.Cookies; c != nil && c.jar != nil { // the cookies are credentials of this run
		k.x.Head = withoutSetCookie(k.x.Head)
	}
	if r.Mode == Stream && out.OK() {
		k.limit = maxSpooled
		if k.spool, k.failed = k.client.opts.Archive.Spool(); k.failed == nil {
			return
		}
	}
	// As much as a body may have before it is decompressed, so that each page that is read is archived as a whole.
	k.limit = k.client.boundsFor(k.call, &out.memory, k.client.opts.MaxBody).most
	k.buffer = k.client.buffers.get(&out.memory)
}

// withoutPrivate leaves out the headers of a request that may be credentials, except the conditions that a later visit
// sends by itself.
func withoutPrivate(request []byte) []byte {
	var out []byte
	for i, line := range bytes.SplitAfter(request, []byte("\r\n")) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		if i == 0 || string(line) == "\r\n" || IsPublicHeader(string(name)) ||
			slices.Contains([]string{"Host", "If-None-Match", "If-Modified-Since"}, string(name)) {
			out = append(out, line...)
		}
	}
	return out
}

// withoutSetCookie leaves out the cookies that an answer sets.
func withoutSetCookie(head []byte) (out []byte) {
	dropped := false
	for line := range bytes.Lines(head) {
		if folded := line[0] == ' ' || line[0] == '\t'; !folded { // a line that goes on belongs to the one before
			name, _, _ := bytes.Cut(line, []byte(":"))
			dropped = bytes.EqualFold(bytes.TrimSpace(name), []byte("Set-Cookie"))
		}
		if !dropped {
			out = append(out, line...)
		}
	}
	return out
}

// add keeps bytes of the body, up to the limit.
func (k *recorder) add(p []byte, err error) {
	k.ended = k.ended || err == io.EOF
	if over := k.x.Length + int64(len(p)) - k.limit; over > 0 {
		p, k.x.Truncated = p[:int64(len(p))-over], "length"
	}
	if k.failed != nil || len(p) == 0 {
		return
	}
	if k.spool != nil {
		n, err := k.spool.Write(p)
		if err == ErrNoRoom {
			p, err, k.limit, k.x.Truncated = p[:n], nil, k.x.Length+int64(n), "length"
		}
		k.failed = err
	} else if k.failed = k.client.buffers.grow(k.call, k.buffer, len(p), int(k.limit)); k.failed == nil {
		k.buffer.b = append(k.buffer.b, p...)
	}
	k.x.Length += int64(len(p))
}

// finish reads the rest of the body, which the caller did not need, and gives the exchange to the Archive. Err is how
// the call ended. It returns err, or an error of the kind Canceled if the call is cancelled meanwhile. A cancelled
// exchange is not archived, because the request is made again.
func (k *recorder) finish(res *http.Response, err error) error {
	if k.done {
		return err
	}
	k.done = true
	defer k.release()
	rest := err
	if most := k.limit - k.x.Length + 1; !k.ended && res.ContentLength <= k.limit {
		if k.spool != nil {
			most = drainLimit // the caller may have stopped long before the end
		}
		if _, failed := io.CopyN(io.Discard, &k.call.body, most); failed != nil && failed != io.EOF && rest == nil {
			rest = k.call.classify(failed)
		}
	}
	if KindOf(rest) == Canceled {
		return rest
	}
	x := &k.x
	switch kind := KindOf(rest); {
	case k.ended || x.Truncated != "":
	case kind == Timeout:
		x.Truncated = "time"
	case kind == ReadError:
		x.Truncated = "disconnect"
	case k.spool != nil:
		x.Truncated = "unspecified"
	default:
		x.Truncated = "length"
	}
	x.Body = k.spool
	if k.spool == nil {
		x.Body, x.Length = bytes.NewReader(k.buffer.b), int64(len(k.buffer.b))
	}
	if k.spool == nil || k.failed == nil {
		k.call.compute(k.client.opts.Compute)
		if x.Length > shortBody { // it is compressed
			k.call.takeTurn()
		}
		k.out.Archived = k.client.opts.Archive.Keep(x)
		k.call.endTurn()
	}
	return err
}

func (k *recorder) release() {
	if k.buffer != nil {
		k.client.buffers.put(k.buffer)
	}
	if k.spool != nil {
		_ = k.spool.Close()
	}
	k.buffer, k.spool = nil, nil
}
