package testweb

import (
	"net/http"
	"strconv"
	"time"
)

const (
	typeHTML = "text/html; charset=utf-8"
	typeText = "text/plain; charset=utf-8"

	// headRoom is kept free before a body, so that head and body leave in one write.
	headRoom = 512
	// wholeWrite is the most that is written at once. Of more, the last byte is
	// held back until the statistics are complete, since the write may wait for the client.
	wholeWrite = 64 << 10
)

// buffer is where an answer is put together.
type buffer struct {
	body  []byte // headRoom bytes, then the body
	extra []byte // header lines beyond the usual, each with its line end
	head  []byte
}

// buffer returns an empty buffer; it goes back with release.
func (s *Server) buffer() *buffer {
	b, ok := s.buffers.Get().(*buffer)
	if !ok {
		b = &buffer{body: make([]byte, headRoom, headRoom+s.web.cfg.PageSize+1024), head: make([]byte, 0, headRoom)}
	}
	b.body, b.extra, b.head = b.body[:headRoom], b.extra[:0], b.head[:0]
	return b
}

func (s *Server) release(b *buffer) { s.buffers.Put(b) }

// send sends an answer whose body is known.
func (x *exchange) send(b *buffer, status int, contentType string) {
	b.head = x.appendHead(b.head, status, contentType, b.extra, int64(len(b.body)-headRoom))
	out := b.body
	if len(b.head) <= headRoom {
		copy(out[headRoom-len(b.head):], b.head)
		out = out[headRoom-len(b.head):]
	} else {
		out = append(b.head, out[headRoom:]...)
	}
	if x.req.head {
		out = out[:len(b.head)]
	}
	x.body = int64(len(out) - len(b.head))
	ok := true
	if last := len(out) - 1; len(out) > wholeWrite {
		ok = x.c.write(out[:last])
		out = out[last:]
	}
	x.finish(status)
	if !ok || !x.c.write(out) {
		x.abort()
	}
}

// appendHead appends the head of an answer. A negative length means a body in
// chunks, or up to the end of the connection for HTTP/1.0.
func (x *exchange) appendHead(dst []byte, status int, contentType string, extra []byte, length int64) []byte {
	if status == http.StatusOK {
		dst = append(dst, "HTTP/1.1 200 OK\r\nDate: "...)
	} else {
		dst = append(dst, "HTTP/1.1 "...)
		dst = strconv.AppendInt(dst, int64(status), 10)
		dst = append(dst, ' ')
		dst = append(dst, http.StatusText(status)...)
		dst = append(dst, "\r\nDate: "...)
	}
	dst = append(dst, x.s.date(x.start)...)
	if contentType != "" {
		dst = append(dst, "\r\nContent-Type: "...)
		dst = append(dst, contentType...)
	}
	switch {
	case status == http.StatusNotModified:
	case length >= 0:
		dst = append(dst, "\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
	case x.req.old:
		x.c.done = true
	default:
		dst = append(dst, "\r\nTransfer-Encoding: chunked"...)
	}
	if x.c.done {
		dst = append(dst, "\r\nConnection: close"...)
	}
	dst = append(dst, "\r\n"...)
	dst = append(dst, extra...)
	return append(dst, "\r\n"...)
}

// date returns t as a Date header has it; formatting is done once a second.
func (s *Server) date(t time.Time) string {
	sec := t.Unix()
	if d := s.lastDate.Load(); d != nil && d.sec == sec {
		return d.text
	}
	d := &dateText{sec, t.UTC().Format(http.TimeFormat)}
	s.lastDate.Store(d)
	return d.text
}

type dateText struct {
	sec  int64
	text string
}

// text answers with a line of plain text.
func (x *exchange) text(status int, body string) {
	x.reply(status, typeText, "", body)
}

// html answers with a page.
func (x *exchange) html(body string) {
	x.reply(http.StatusOK, typeHTML, "", body)
}

// reply answers with a body that is at hand; extra are header lines, each with
// its line end.
func (x *exchange) reply(status int, contentType, extra, body string) {
	b := x.s.buffer()
	defer x.s.release(b)
	b.extra = append(b.extra, extra...)
	b.body = append(b.body, body...)
	x.send(b, status, contentType)
}

// redirect answers with a Location of another URL, given in full.
func (x *exchange) redirect(status, host int, uri string) {
	location := string(x.s.web.appendOrigin(nil, host)) + uri
	x.reply(status, typeText, "Location: "+location+"\r\n", "see "+location+"\n")
}

// url returns the absolute URL of a URI on the host of this exchange.
func (x *exchange) url(uri string) string {
	return string(x.s.web.appendOrigin(nil, x.h.id)) + uri
}
