package warc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/mapwright/mapwright/internal/web/fetch"
)

// Profiles of revisit records.
const (
	sameBody    = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	notModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// dateForm is the form of WARC-Date.
const dateForm = "2006-01-02T15:04:05.000000Z"

// exchange is what the records of one exchange are made of.
type exchange struct {
	*fetch.Exchange
	date    string
	head    []byte
	payload string // digest of the body; after a 304, of the one that it confirms
	profile string // of a revisit record; empty for a response record
	refers  string // date of the record that a revisit record refers to
}

// newExchange reads the body once, for its digest, and decides which record it becomes.
func newExchange(x *fetch.Exchange) (*exchange, error) {
	e := &exchange{Exchange: x, date: x.Began.UTC().Format(dateForm), head: withoutChunks(x.Head, x.Length)}
	var err error
	if e.payload, err = digest(nil, x.Body); err != nil {
		return nil, err
	}
	date, payload, known := strings.Cut(x.Earlier, " ")
	switch {
	case !known:
	case x.Status == http.StatusNotModified:
		// The digest is that of the body which is still valid. The headers of the 304 are left out: readers would
		// replay the page with them, and browsers show nothing then.
		e.profile, e.refers, e.payload, e.head = notModified, date, payload, nil
	case x.Status/100 == 2 && x.Length > 0 && x.Truncated == "" && e.payload == payload:
		e.profile, e.refers = sameBody, date
	}
	return e, nil
}

// reference is what Keep returns.
func (e *exchange) reference() string {
	if e.profile != "" {
		return e.Earlier
	}
	return e.date + " " + e.payload
}

// writeTo writes the records of the exchange.
func (e *exchange) writeTo(w io.Writer, zip *gzip.Writer) error {
	id := newID()
	fields := []string{"WARC-Type", "response", "WARC-Record-ID", id, "WARC-Target-URI", e.URL.String(), "WARC-Date",
		e.date}
	if e.Addr.IsValid() {
		fields = append(fields, "WARC-IP-Address", e.Addr.String())
	}
	if e.Proto == "HTTP/2.0" {
		fields = append(fields, "WARC-Protocol", "h2")
	}
	body := io.Reader(e.Body)
	if e.profile != "" {
		fields[1], body = "revisit", http.NoBody
		fields = append(fields, "WARC-Profile", e.profile, "WARC-Refers-To-Target-URI", e.URL.String(),
			"WARC-Refers-To-Date", e.refers)
	} else if e.Truncated != "" {
		fields = append(fields, "WARC-Truncated", e.Truncated)
	}
	fields = append(fields, "WARC-Payload-Digest", e.payload)
	length := int64(len(e.head))
	if e.profile == "" {
		length += e.Length
	}
	block, err := digest(e.head, body)
	if err != nil {
		return err
	}
	if e.profile == "" {
		if _, err := e.Body.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	fields = append(fields, "WARC-Block-Digest", block, "Content-Type", "application/http;msgtype=response")
	if err := writeRecord(w, zip, fields, e.head, body, length); err != nil {
		return err
	}
	block, _ = digest(e.Request, http.NoBody)
	return writeRecord(w, zip, []string{"WARC-Type", "request", "WARC-Record-ID", newID(), "WARC-Target-URI",
		e.URL.String(), "WARC-Date", e.date, "WARC-Concurrent-To", id, "WARC-Block-Digest", block, "Content-Type",
		"application/http;msgtype=request"}, e.Request, http.NoBody, int64(len(e.Request)))
}

// writeRecord writes one record as a gzip member. Its block is head and then body, of the given length together.
func writeRecord(w io.Writer, zip *gzip.Writer, fields []string, head []byte, body io.Reader, length int64) error {
	zip.Reset(w)
	var text bytes.Buffer
	text.WriteString("WARC/1.1\r\n")
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&text, "%s: %s\r\n", fields[i], fields[i+1])
	}
	fmt.Fprintf(&text, "Content-Length: %d\r\n\r\n", length)
	text.Write(head)
	if _, err := zip.Write(text.Bytes()); err != nil {
		return err
	}
	if n, err := io.Copy(zip, body); err != nil || n != length-int64(len(head)) {
		return fmt.Errorf("copied %d bytes of a body of %d: %w", n, length-int64(len(head)), err)
	}
	if _, err := io.WriteString(zip, "\r\n\r\n"); err != nil {
		return err
	}
	return zip.Close()
}

// digest is the SHA-1 of head and body in the form of WARC digests. It reads a body from its beginning.
func digest(head []byte, body io.Reader) (string, error) {
	if s, ok := body.(io.Seeker); ok {
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	sum := sha1.New()
	sum.Write(head)
	if _, err := io.Copy(sum, body); err != nil {
		return "", err
	}
	return "sha1:" + base32.StdEncoding.EncodeToString(sum.Sum(nil)), nil
}

// newID makes the identifier of a record.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withoutChunks makes the head of an answer true for a body whose chunks were joined.
func withoutChunks(head []byte, length int64) []byte {
	lines := bytes.SplitAfter(head, []byte("\n"))
	is := func(line []byte, name string) bool {
		have, _, found := bytes.Cut(line, []byte(":"))
		return found && strings.EqualFold(string(have), name)
	}
	chunked := false
	for _, line := range lines {
		chunked = chunked || is(line, "Transfer-Encoding")
	}
	if !chunked {
		return head
	}
	var out []byte
	for i, line := range lines {
		switch {
		case i > 0 && (is(line, "Transfer-Encoding") || is(line, "Content-Length")):
			out = append(append(out, "X-Crawler-"...), line...)
		case len(bytes.TrimRight(line, "\r\n")) == 0 && len(line) > 0:
			out = fmt.Appendf(out, "Content-Length: %d\r\n\r\n", length)
		default:
			out = append(out, line...)
		}
	}
	return out
}

// writeInfo writes the warcinfo record of a file.
func writeInfo(w io.Writer, name string, at time.Time, fields []string) error {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			block = fmt.Appendf(block, "%s: %s\r\n", fields[i], fields[i+1])
		}
	}
	sum, _ := digest(block, http.NoBody)
	return writeRecord(w, gzip.NewWriter(nil), []string{"WARC-Type", "warcinfo", "WARC-Record-ID", newID(), "WARC-Date",
		at.UTC().Format(dateForm), "WARC-Filename", name, "WARC-Block-Digest", sum, "Content-Type",
		"application/warc-fields"}, block, http.NoBody, int64(len(block)))
}
