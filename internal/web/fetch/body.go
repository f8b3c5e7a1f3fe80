package fetch

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/mapwright/mapwright/internal/web/http1"
)

// drainLimit is how many bytes of an unwanted body are read. On HTTP/1 a connection can be used again only when the
// whole body was read, and a new connection costs the host and this machine more than these bytes.
const drainLimit = 16 << 10

// newResponse takes over what the headers say.
func newResponse(res *http.Response) *Response {
	out := &Response{
		Status:        res.StatusCode,
		Proto:         res.Proto,
		Header:        res.Header,
		Location:      first(res.Header["Location"]),
		RetryAfter:    first(res.Header["Retry-After"]),
		ContentLength: res.ContentLength,
	}
	out.ContentType = mediaTypeOf(first(res.Header["Content-Type"]))
	return out
}

// first is http.Header.Get for names that are in canonical form, as net/http's
// are.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// mediaTypeOf is the media type of a Content-Type, in lower case and without parameters.
func mediaTypeOf(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// A meter is a body as it comes from the connection. It counts in its call the bytes that came and the time spent
// waiting for them.
type meter struct {
	call *call
	r    io.Reader
}

func (c *call) meter(r io.Reader) *meter {
	c.body = meter{c, r}
	return &c.body
}

func (m *meter) Read(p []byte) (int, error) {
	c := m.call
	defer c.wait()()
	start := time.Since(c.start)
	c.readSince.set(start)
	n, err := m.r.Read(p)
	c.bytes.Add(int64(n))
	// In this order the clock may miss a read, but never counts one twice.
	c.readSince.clear()
	c.busy.Add(int64(time.Since(c.start) - start))
	if c.record != nil {
		c.record.add(p[:n], err)
	}
	return n, err
}

// read reads the body if it is wanted, and otherwise ends it cheaply.
func (c *Client) read(call *call, res *http.Response, r *Request, out *Response) error {
	wire := call.meter(res.Body)
	wanted := out.OK() && r.Mode != Stream && r.Mode != Head &&
		(r.Mode == Text || out.ContentType == "" || isHTML(out.ContentType))
	if !wanted {
		drain(res, wire)
		return nil
	}
	limit := c.maxBody(r)
	if r.Mode == Page && res.ContentLength > limit {
		return errTooLarge // even if it is compressed
	}

	out.buffers = c.buffers
	defer call.endTurn()
	if len(res.Header["Content-Encoding"]) == 0 && out.ContentType != "" {
		out.buffer = call.whole(res, limit)
	}
	if out.buffer != nil {
		out.DecodedLength = int64(len(out.buffer.b))
		call.bytes.Add(out.DecodedLength)
	} else {
		out.buffer = c.buffers.get(&out.memory)
		if html, err := c.decode(call, res, r, out, wire, limit); err != nil || !html {
			return err
		}
	}
	if r.Mode != Page {
		out.Body, out.Charset = out.buffer.b, "utf-8"
		return nil
	}
	call.compute(c.opts.Compute)
	if len(out.buffer.b) > shortText {
		call.takeTurn()
	}
	var err error
	out.Body, out.Charset, err = c.toUTF8(call, out, first(res.Header["Content-Type"]))
	return err
}

// maxBody is the limit of a body that is not a Stream.
func (c *Client) maxBody(r *Request) int64 { return cmp.Or(r.MaxBody, c.opts.MaxBody) }

// whole returns the body as it was sent, if all of it has come already, or nil.
func (c *call) whole(res *http.Response, limit int64) *buffer {
	body, ok := res.Body.(*http1.Body)
	if !ok || res.ContentLength > limit {
		return nil
	}
	b, memory := body.Whole()
	if memory == nil {
		return nil
	}
	c.lent = buffer{b: b, lent: memory}
	if c.record != nil {
		c.record.add(b, io.EOF)
	}
	return &c.lent
}

// decode reads a body into the response's buffer and undoes its compression. It reports false for a page that turns out
// not to be HTML.
func (c *Client) decode(call *call, res *http.Response, r *Request, out *Response, wire io.Reader,
	limit int64) (html bool, err error) {
	buf, body := out.buffer, wire
	opens, err := openFuncs(res.Header["Content-Encoding"])
	if err != nil {
		return false, err
	}
	sniffed := r.Mode == Page && out.ContentType == ""
	expect := res.ContentLength
	if len(opens) > 0 {
		expect = -1
		bounds := c.boundsFor(call, &out.memory, limit)
		if !sniffed {
			// All of it first: the memory of a decoder is not held while the host is slow.
			packed, err := c.packed(call, res, out, wire, bounds.most)
			if packed != nil {
				defer c.buffers.put(packed)
			}
			if err != nil && (r.Mode != Text || !errors.Is(err, errTooLarge)) {
				return false, err
			}
			body = bytes.NewReader(packed.b)
		}
		call.compute(c.opts.Compute)
		decoded, err := c.decoders.open(opens, bounds, body)
		if err != nil {
			return false, err
		}
		defer decoded.release()
		body = decoded
	}
	if sniffed {
		html, err := sniff(buf, body, limit, out)
		if err != nil || !html {
			return false, err
		}
	}
	err = c.fill(call, buf, body, limit, expect)
	if errors.Is(err, errTooLarge) && r.Mode == Text && int64(len(buf.b)) > limit {
		buf.b, out.Truncated, err = buf.b[:limit], true, nil
	}
	out.DecodedLength = int64(len(buf.b))
	return true, err
}

// packed reads a compressed body without decompressing it. If it is larger than limit, the error is errTooLarge, and
// the buffer has as much of it as limit allows.
func (c *Client) packed(call *call, res *http.Response, out *Response, wire io.Reader, limit int64) (*buffer, error) {
	if buf := call.whole(res, limit); buf != nil {
		call.bytes.Add(int64(len(buf.b)))
		return buf, nil
	}
	buf := c.buffers.get(&out.memory)
	return buf, c.fill(call, buf, wire, limit, res.ContentLength)
}

// drain reads a little of a body that is not needed. An error in that is ignored.
func drain(res *http.Response, body io.Reader) {
	if res.ProtoMajor == 1 && res.ContentLength <= drainLimit {
		_, _ = io.CopyN(io.Discard, body, drainLimit+1)
	}
}

// sniff reads the start of a body without a Content-Type and reports whether it
// looks like HTML.
func sniff(buf *buffer, body io.Reader, limit int64, out *Response) (bool, error) {
	const enough = 512
	for len(buf.b) < enough && int64(len(buf.b)) < limit {
		n, err := body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
	}
	if len(buf.b) > 0 {
		out.ContentType = mediaTypeOf(http.DetectContentType(buf.b))
	}
	return isHTML(out.ContentType), nil
}

// fill reads a body to its end. If the body is larger than limit, it stops one byte after that and returns errTooLarge.
// Expect is the length to expect, or -1.
func (c *Client) fill(call *call, buf *buffer, body io.Reader, limit, expect int64) error {
	room := int(min(max(expect, 0), limit) + 1)
	for {
		if err := c.buffers.grow(call, buf, room, int(limit)+1); err != nil {
			return err
		}
		n, err := body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		switch {
		case int64(len(buf.b)) > limit:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		room = 1
	}
}

// stream makes Response.Reader, from which the caller reads the body.
func (c *Client) stream(call *call, res *http.Response, r *Request, out *Response) error {
	limit := cmp.Or(r.MaxBody, math.MaxInt64-1)
	opens, err := openFuncs(res.Header["Content-Encoding"])
	if err != nil {
		return err
	}
	bounds := c.boundsFor(call, &out.memory, limit)
	bounds.ratio = true
	decoded, err := c.decoders.open(opens, bounds, call.meter(res.Body))
	if err != nil {
		return err
	}
	out.Reader = &streamReader{call: call, res: res, r: decoded, left: limit, out: out}
	out.stop = func() {
		if call.record != nil {
			_ = call.record.finish(res, nil)
		}
		res.Body.Close()
		decoded.release()
		call.end()
	}
	return nil
}

// A streamReader is Response.Reader. It applies the limit, and its errors are those of Do.
type streamReader struct {
	call *call
	res  *http.Response
	r    io.Reader
	left int64
	out  *Response
	err  error
}

// Ended is why reading must stop, or nil. A reader that unzips asks it, because a few bytes
// that have come can unzip for a long time.
func (s *streamReader) Ended() error {
	if why := s.call.cause(); why != nil {
		return s.call.classify(why)
	}
	return nil
}

// WireBytes is how many bytes of the body have come, compressed as they were.
func (s *streamReader) WireBytes() int64 { return s.call.bytes.Load() }

func (s *streamReader) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.err = s.Ended(); s.err != nil {
		return 0, s.err
	}
	// One byte more than is left tells a body that ends at the limit from one that
	// goes on.
	if int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.r.Read(p)
	switch {
	case int64(n) > s.left:
		n, err = int(s.left), s.call.classify(errTooLarge)
	case err != nil && err != io.EOF:
		err = s.call.classify(err)
	}
	s.left -= int64(n)
	s.err = err
	s.out.DecodedLength += int64(n)
	s.out.WireBytes = s.call.bytes.Load()
	if err != nil {
		s.out.Timings = s.call.timings()
		if s.call.record != nil {
			s.finish(err)
		}
	}
	return n, err
}

// finish archives a body that was read to its end, or to an error.
func (s *streamReader) finish(err error) {
	if err == io.EOF {
		err = nil
	}
	if err = s.call.record.finish(s.res, err); err != nil {
		s.err = err
	}
}
