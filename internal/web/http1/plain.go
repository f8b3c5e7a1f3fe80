package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
)

// readResponse reads the headers of an answer, and what its body is. Most answers are plain; net/http reads all others,
// which takes four times as long, and those to HEAD, whose Content-Length is not that of a body.
func readResponse(in *bufio.Reader, bodiless bool) (*http.Response, error) {
	if bodiless {
		return http.ReadResponse(in, &http.Request{Method: http.MethodHead})
	}
	if res := readPlain(in); res != nil {
		return res, nil
	}
	return http.ReadResponse(in, nil)
}

// readPlain reads an answer whose headers have come already and have nothing unusual in them: HTTP/1.1, a body whose
// length is given, names and values of printable ASCII, no header that changes how the message is read. It returns nil,
// and has read nothing, whenever it is not sure. Otherwise it returns the same as http.ReadResponse.
func readPlain(in *bufio.Reader) *http.Response {
	seen, _ := in.Peek(in.Buffered())
	end := bytes.Index(seen, []byte("\r\n\r\n"))
	if end < 0 {
		return nil
	}
	head := string(seen[:end+len("\r\n")]) // each line with its end
	line, rest, _ := strings.Cut(head, "\r\n")
	status, ok := plainStatus(line)
	if !ok {
		return nil
	}
	answer := &plainAnswer{res: http.Response{
		Status: line[len("HTTP/1.1 "):], StatusCode: status,
		Proto: line[:len("HTTP/1.1")], ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}}
	res, values := &answer.res, answer.values[:]
	lines := strings.Count(rest, "\n")
	res.Header = make(http.Header, lines)
	if lines > len(values) {
		values = make([]string, lines)
	}
	for len(rest) > 0 {
		var name, value string
		if name, value, rest, ok = plainField(rest); !ok {
			return nil
		}
		switch name {
		case "Transfer-Encoding", "Trailer", "Pragma":
			return nil
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil
			}
		case "Content-Length":
			if res.ContentLength, ok = plainLength(value); !ok || len(res.Header[name]) > 0 {
				return nil
			}
		}
		if have := res.Header[name]; have != nil {
			res.Header[name] = append(have, value)
			continue
		}
		values[0] = value
		res.Header[name], values = values[:1:1], values[1:]
	}
	if res.ContentLength < 0 {
		return nil
	}
	_, _ = in.Discard(end + len("\r\n\r\n"))
	res.Body = http.NoBody
	if res.ContentLength > 0 {
		answer.body = plainBody{in, res.ContentLength}
		res.Body = &answer.body
	}
	return res
}

// A plainAnswer is an answer and what belongs to it, in one piece of memory.
type plainAnswer struct {
	res    http.Response
	body   plainBody
	values [8]string // of the headers, if they are not many
}

// plainStatus reads a status line. Answers that have no body whatever their headers
// say are not plain.
func plainStatus(line string) (int, bool) {
	const before = len("HTTP/1.1 ")
	if len(line) < before+len("200 ") || line[:before] != "HTTP/1.1 " || line[before+3] != ' ' || !isPlain(line) {
		return 0, false
	}
	status := 0
	for _, c := range []byte(line[before : before+3]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		status = status*10 + int(c-'0')
	}
	return status, status >= 200 && status < 600 && status != http.StatusNoContent && status != http.StatusNotModified
}

// plainField cuts one field from lines.
func plainField(lines string) (name, value, rest string, ok bool) {
	line, rest, _ := strings.Cut(lines, "\r\n")
	colon := strings.IndexByte(line, ':')
	if colon <= 0 || !isPlain(line) {
		return "", "", "", false
	}
	name = line[:colon]
	canonical, first := true, true // of a part between hyphens
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z':
			canonical = canonical && !first
		case 'A' <= c && c <= 'Z':
			canonical = canonical && first
		case c != '-' && (c < '0' || c > '9'):
			return "", "", "", false
		}
		first = name[i] == '-'
	}
	if !canonical {
		name = http.CanonicalHeaderKey(name)
	}
	return name, strings.Trim(line[colon+1:], " "), rest, true
}

// isPlain reports whether a line is printable ASCII.
func isPlain(line string) bool {
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			return false
		}
	}
	return true
}

// plainLength reads a length, of a size that cannot overflow.
func plainLength(s string) (int64, bool) {
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, len(s) > 0 && len(s) < 19
}

// A plainBody is a body of known length.
type plainBody struct {
	in   *bufio.Reader
	left int64
}

// Read returns io.EOF together with the last bytes.
func (b *plainBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		err = io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *plainBody) Close() error { return nil }
