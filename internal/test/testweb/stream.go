package testweb

import (
	"errors"
	"net/http"
	"strconv"
)

// streamPiece is how much of a body is gathered before it is written.
const streamPiece = 32 << 10

var errClientGone = errors.New("client went away")

// stream sends an answer too long, or too slow, to be put together first. The end is
// held back until close, so that the statistics are complete before the client has it all.
type stream struct {
	x       *exchange
	b       *buffer
	chunked bool
	err     error
}

// stream begins an answer with status 200. A negative length sends it in chunks.
func (x *exchange) stream(contentType, extra string, length int64) *stream {
	s := &stream{x: x, b: x.s.buffer(), chunked: length < 0 && !x.req.old}
	s.b.head = x.appendHead(s.b.head, http.StatusOK, contentType, []byte(extra), length)
	s.put(s.b.head)
	return s
}

func (s *stream) put(p []byte) {
	if s.err == nil && !s.x.c.write(p) {
		s.err = errClientGone
	}
}

// Write gathers p and sends full pieces.
func (s *stream) Write(p []byte) (int, error) {
	if s.x.req.head {
		return len(p), nil
	}
	s.x.body += int64(len(p))
	s.b.body = append(s.b.body, p...)
	if len(s.b.body)-headRoom >= streamPiece {
		s.flush()
	}
	return len(p), s.err
}

// flush sends what was gathered.
func (s *stream) flush() {
	body := s.b.body[headRoom:]
	if len(body) == 0 {
		return
	}
	out := body
	if s.chunked {
		s.b.body = append(s.b.body, "\r\n"...)
		size := append(strconv.AppendInt(s.b.head[:0], int64(len(body)), 16), "\r\n"...)
		copy(s.b.body[headRoom-len(size):], size)
		out = s.b.body[headRoom-len(size):]
	}
	s.put(out)
	s.b.body = s.b.body[:headRoom]
}

// close ends the answer.
func (s *stream) close() {
	s.x.finish(http.StatusOK)
	s.flush()
	if s.chunked && !s.x.req.head {
		s.put([]byte("0\r\n\r\n"))
	}
	s.release()
}

// breakOff ends the answer early, with what was gathered sent but no end to it.
func (s *stream) breakOff() {
	s.x.broken = true
	s.x.finish(http.StatusOK)
	s.flush()
	s.x.c.done = true
	s.release()
}

func (s *stream) release() {
	if s.err != nil {
		s.x.abort()
	}
	s.x.s.release(s.b)
}
