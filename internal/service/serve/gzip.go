package serve

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the size of an answer, in bytes, from which on it is compressed if the client takes that.
const gzipFrom = 4 << 10

// takesGzip reports whether a client takes answers that are compressed with gzip.
func takesGzip(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, weighted := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return !weighted || err == nil && q > 0
		}
	}
	return false
}

// mostCompressed is how many answers are compressed at the same time, over all accounts. Further ones are sent as they
// are. Clients that take many files could otherwise have all processors, and memory for the state of each compression.
const mostCompressed = 8

// beginCompressing says whether an answer is compressed: the client takes that, and few others are compressed now. If
// so, endCompressing must be called.
func (c *call) beginCompressing() bool {
	if !takesGzip(c.r) {
		return false
	}
	select {
	case c.compressed <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *call) endCompressing() { <-c.compressed }

// newGzip makes a writer that compresses as fast as it can.
func newGzip(to io.Writer) *gzip.Writer {
	w, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}

func compress(text []byte) []byte {
	var short bytes.Buffer
	w := newGzip(&short)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Close()
	return short.Bytes()
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// send sends the whole body of an answer, compressed if it is large and the client takes that. The header is set.
func (c *call) send(status int, body []byte) {
	if len(body) >= gzipFrom {
		c.w.Header().Add("Vary", "Accept-Encoding")
	}
	if len(body) >= gzipFrom && c.beginCompressing() {
		body = compress(body)
		c.endCompressing()
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // a client that has gone
}
