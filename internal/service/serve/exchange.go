package serve

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	answerTime = 60 * time.Second // for an ordinary answer to be made and sent
	// for a body to arrive, and a second more for each bodyRate bytes of it that have arrived
	bodyTime = 30 * time.Second
	bodyRate = 32 << 10

	// A body that nothing has read is read for a moment before the answer. If it ends within that, the client can use
	// the connection again; otherwise the connection is closed.
	leaveTime  = 500 * time.Millisecond
	leaveBytes = 256 << 10
)

// answer is the answer to a request, whose body may not have arrived yet.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	conn    *connection
	body    *upload // nil if the request has none
	began   bool
	status  int
}

func newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	return &answer{ResponseWriter: w, control: http.NewResponseController(w), conn: connectionOf(r.Context()),
		status: http.StatusOK}
}

// receive gives the body of a request its deadline, and the answer. Answers that take long, such as files and streams,
// move it themselves. Errors of deadlines are left: recorders of tests have none.
func (a *answer) receive(r *http.Request) {
	_ = a.control.SetWriteDeadline(time.Now().Add(answerTime))
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	a.body = &upload{ReadCloser: r.Body, answer: a, began: time.Now(), expects: r.Header.Get("Expect") != ""}
	a.body.extend()
	r.Body = a.body
}

// start is called before anything is sent.
func (a *answer) start() {
	if a.began {
		return
	}
	a.began = true
	if a.conn.isStrangersLast() {
		a.Header().Set("Connection", "close")
	}
	if a.body != nil && !a.body.leave() {
		a.Header().Set("Connection", "close")
	}
}

// finish is called at the end of the handler.
func (a *answer) finish() {
	a.start() // net/http sends an answer if the handler has sent none
	a.conn.end()
}

func (a *answer) WriteHeader(status int) {
	if !a.began {
		a.status = status
	}
	a.start()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.start()
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// upload is the body of a request. Its deadline moves with what arrives, and is cleared when all of it has arrived:
// net/http ends the context of a request at a deadline for reading that passes later.
type upload struct {
	io.ReadCloser
	answer  *answer
	began   time.Time
	expects bool // the client waits for a sign before it sends the body
	read    int64
	err     error // of the last read; io.EOF after the whole body
}

func (u *upload) extend() {
	_ = u.answer.control.SetReadDeadline(u.began.Add(bodyTime + time.Duration(u.read)*time.Second/bodyRate))
}

func (u *upload) Read(p []byte) (n int, err error) {
	n, err = u.take(p)
	if err == nil {
		u.extend()
	}
	return n, err
}

// take reads without moving the deadline.
func (u *upload) take(p []byte) (n int, err error) {
	if u.err != nil {
		return 0, u.err
	}
	u.answer.conn.wait()
	n, u.err = u.ReadCloser.Read(p)
	if !u.answer.conn.resume() {
		u.err = net.ErrClosed
	}
	u.read += int64(n)
	if errors.Is(u.err, io.EOF) {
		_ = u.answer.control.SetReadDeadline(time.Time{})
		_ = u.answer.control.SetWriteDeadline(time.Now().Add(answerTime))
	}
	return n, u.err
}

// leave reads the rest of a body for a moment. It returns false if that is not all: the connection cannot be used
// again.
func (u *upload) leave() bool {
	if u.err == nil && (!u.expects || u.read > 0) {
		_ = u.answer.control.SetReadDeadline(time.Now().Add(leaveTime))
		_, _ = io.CopyN(io.Discard, readerFunc(u.take), leaveBytes) // its error is kept in err
	}
	if errors.Is(u.err, io.EOF) {
		return true
	}
	_ = u.answer.control.SetReadDeadline(time.Now()) // net/http does not wait for the rest when it closes the body
	_ = u.answer.control.SetWriteDeadline(time.Now().Add(answerTime))
	return false
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
