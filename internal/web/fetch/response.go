package fetch

import (
	"context"
	"io"
	"net/http"
)

// A Response is what a host answered. It must be closed; Body is not valid after
// that.
type Response struct {
	Status int
	Proto  string // HTTP/1.1 or HTTP/2.0
	Header http.Header

	// Location and RetryAfter are those headers as they came. Redirects are not
	// followed.
	Location, RetryAfter string

	// ContentType is the media type in lower case without parameters. For a Page
	// without the header it is what the body looks like.
	ContentType string

	// ContentLength is the header of that name, or -1.
	ContentLength int64

	// Body is the decoded body. For a Page it is UTF-8 without a byte order mark. It is nil when it was not read.
	Body []byte

	// DecodedLength is the length of the body after decompression and before it was
	// brought to UTF-8.
	DecodedLength int64

	// WireBytes counts the bytes of the body that came, compressed as they were.
	WireBytes int64

	// Charset is the name of the encoding that Body was brought from; "utf-8" if
	// nothing had to be done.
	Charset string

	// Truncated says that Body was cut at the limit, which only Text does.
	Truncated bool

	// Reader is the decoded body in mode Stream, nil otherwise. Its errors are those
	// of Do.
	Reader io.Reader

	// Reused says that the connection had served before.
	Reused bool

	// Archived says where Options.Archive has the body: in the record of this exchange, or in that of an earlier one
	// with the same body. It is empty without an Archive, and of a Stream until it is read.
	Archived string

	Timings Timings

	buffers *buffers
	buffer  *buffer // Body's memory
	memory  holding // what is charged for this response
	more    int64   // what Reserve has charged
	stop    func()  // ends a Stream
}

// Close gives the body's memory back and ends a Stream. It may be called more than
// once and on nil.
func (r *Response) Close() {
	if r == nil {
		return
	}
	if r.stop != nil {
		r.stop()
	}
	if r.buffer != nil {
		r.buffers.put(r.buffer)
	}
	if r.more > 0 {
		r.buffers.budget.release(&r.memory, r.more)
	}
	r.stop, r.buffer, r.more, r.Body, r.Reader = nil, nil, 0, nil, nil
}

// Reserve charges n bytes, which the caller needs for what it has read of the body, to the memory that all large bodies
// share (Options.MaxMemory). It waits until others have released theirs, or for the end of ctx. Close releases them.
func (r *Response) Reserve(ctx context.Context, n int64) error {
	if r.buffers == nil { // not from a Client
		return nil
	}
	budget := &r.buffers.budget
	if claim := budget.claim(&r.memory, n); claim != nil && !budget.await(ctx, claim) {
		return context.Cause(ctx)
	}
	r.more += n
	return nil
}

// OnClose makes Close call a function, once.
func (r *Response) OnClose(fn func()) {
	stop := r.stop
	r.stop = func() {
		if stop != nil {
			stop()
		}
		fn()
	}
}

// OK reports whether the status is a success.
func (r *Response) OK() bool { return r.Status >= 200 && r.Status < 300 }
